#include "kernels/exec/nan_check.h"

#include <cstring>

#include "absl/strings/str_join.h"

namespace tandem {
namespace {

// Position of the first number whose exponent has all its bits set.
template <typename Bits>
int64_t FirstWith(const void* data, Bits exponent, int64_t numel) {
  const auto* at = static_cast<const Bits*>(data);
  for (int64_t i = 0; i < numel; ++i) {
    if ((at[i] & exponent) == exponent) return i;
  }
  return -1;
}

// "fc_0.w[3] of f32[4,2]" when the variable holds what is not finite, else "".
std::string Finding(const Program& program, const std::string& var, const void* data) {
  if (var.empty() || data == nullptr) return "";
  const TensorDesc& desc = program.FindVar(var)->desc;
  const int64_t at = FirstNotFinite(data, desc.dtype, desc.shape.numel());
  return at < 0 ? "" : absl::StrFormat("%s[%d] of %s", var, at, ToString(desc));
}

// Of all variables of the slots; `data`: their memory by position, one for an absent slot.
std::vector<std::string> Findings(const Program& program,
                                  const std::vector<std::vector<std::string>>& slots,
                                  const void* const* data) {
  std::vector<std::string> found;
  size_t position = 0;
  for (const auto& slot : slots) {
    for (const std::string& var : slot) {
      std::string finding = Finding(program, var, data[position++]);
      if (!finding.empty()) found.push_back(std::move(finding));
    }
    if (slot.empty()) ++position;
  }
  return found;
}

}  // namespace

int64_t FirstNotFinite(const void* data, DType dtype, int64_t numel) {
  switch (dtype) {
    case DType::kF32:
      return FirstWith<uint32_t>(data, 0x7f800000, numel);
    case DType::kF16:
      return FirstWith<uint16_t>(data, 0x7c00, numel);
    case DType::kBF16:
      return FirstWith<uint16_t>(data, 0x7f80, numel);
    default:
      return -1;
  }
}

Status NanCheck::OnStep(const PlanStep& step, int64_t, Time, Time) {
  if (step.comm_start >= 0) return OkStatus();  // looked at when it has been waited for
  const Program& program = plan_.program();
  const Op& op = program.ops[static_cast<size_t>(step.op)];
  const auto out = Findings(program, op.outputs, step.args.out);
  if (out.empty()) return OkStatus();
  const auto in = Findings(program, op.inputs, step.args.in);
  return DataLoss(
      "check_nan_inf: not finite is %s; %s", absl::StrJoin(out, ", "),
      in.empty() ? "all inputs are finite" : "so was before " + absl::StrJoin(in, ", "));
}

}  // namespace tandem
