#include "trainer/session/param_checksums.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/crc32c.h"
#include "common/base/require.h"
#include "common/tensor/device.h"
#include "common/tensor/tensor.h"
#include "kernels/exec/commit.h"

namespace tandem::trainer {
namespace {

// Number of ranks that a message shows at most.
constexpr size_t kRanksShown = 8;

constexpr char kHint[] =
    "test processor and memory of that host, and continue the job from its checkpoint on another "
    "host";

// Returns "rank 1", or "ranks 1, 4 and 7", or the first ranks and the number of the others.
std::string RanksText(const std::vector<size_t>& ranks) {
  const size_t shown = std::min(ranks.size(), kRanksShown);
  std::string text =
      absl::StrJoin(ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(shown), ", ");
  if (ranks.size() > shown) absl::StrAppend(&text, " and ", ranks.size() - shown, " more");
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", text);
}

std::string Hex(int64_t checksum) { return absl::StrFormat("%08x", checksum); }

}  // namespace

bool ParamChecksumDue(int64_t every, int64_t step, int64_t steps, bool last) {
  TD_REQUIRE(every >= 0 && steps > 0);
  if (every == 0) return false;
  return last || (step + 1) / every > (step + 1 - steps) / every;
}

StatusOr<uint32_t> ParamChecksum(const graph::Program& program, const exec::Scope& scope) {
  const std::set<std::string> copies = exec::CopiedTables(program);
  std::map<std::string, const Tensor*> params;
  for (const graph::Var* const var : program.VarsOf(graph::VarKind::kParam)) {
    const Tensor* const tensor = scope.Find(var->name);
    if (tensor != nullptr && !copies.contains(var->name)) params[var->name] = tensor;
  }
  CpuDevice host;
  const bool on_host = scope.device().place().kind == PlaceKind::kCpu;
  uint32_t sum = 0;
  for (const auto& [name, tensor] : params) {
    sum = Crc32c(sum, name.c_str(), name.size() + 1);
    if (on_host) {
      sum = Crc32c(sum, tensor->data(), tensor->bytes());
      continue;
    }
    TD_ASSIGN_OR_RETURN(const Tensor copy, Tensor::Make(tensor->desc(), host));
    TD_RETURN_IF_ERROR(scope.device().CopyToHost(copy.data(), tensor->data(), copy.bytes()));
    sum = Crc32c(sum, copy.data(), copy.bytes());
  }
  return sum;
}

Status CompareParamChecksums(std::span<const int64_t> by_rank) {
  std::map<int64_t, std::vector<size_t>> ranks;  // by checksum
  for (size_t rank = 0; rank < by_rank.size(); ++rank) ranks[by_rank[rank]].push_back(rank);
  if (ranks.size() <= 1) return OkStatus();
  std::vector<size_t> wrong;
  std::vector<std::string> values;
  const std::vector<size_t>* most = nullptr;
  for (const auto& [checksum, same] : ranks) {
    if (2 * same.size() > by_rank.size()) most = &same;
  }
  for (const auto& [checksum, same] : ranks) {
    if (&same == most) continue;
    wrong.insert(wrong.end(), same.begin(), same.end());
    if (values.size() < kRanksShown) {
      values.push_back(absl::StrCat(Hex(checksum), " on ", RanksText(same)));
    }
  }
  std::sort(wrong.begin(), wrong.end());
  if (most == nullptr) {
    return Internal(
        "param_checksums: the parameters of the ranks differ, and no value is that of the majority "
        "(%s): %s has wrong parameters [TD1222]; hint: %s",
        absl::StrJoin(values, "; "),
        by_rank.size() == 2 ? "one of the two ranks" : "at least one of these ranks", kHint);
  }
  return Internal(
      "param_checksums: %s of %d has wrong parameters: the checksum is %s, and %s on the other %d "
      "ranks [TD1222]; hint: %s",
      RanksText(wrong), by_rank.size(), absl::StrJoin(values, "; "), Hex(by_rank[most->front()]),
      most->size(), kHint);
}

}  // namespace tandem::trainer
