#include "tests/ops/support_page.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/ops/core/op.h"
#include "tests/ops/module.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

constexpr const char* kHead =
    "# Operators\n"
    "\n"
    "Written by tests/ops/support_test.cc from the definitions in `kernels/ops`; the test fails\n"
    "when the page is out of date. Implementations stand in the order in which they are asked;\n"
    "the first that serves a case runs. Types of inputs are those with which `tests/ops` tests an\n"
    "operator; f16 and bf16 are what `amp` makes of f32. Types and shapes of outputs follow.\n"
    "\n"
    "The CUDA kernels are compiled with every build and have never been run on a device: see\n"
    "`tests/gpu/run.sh`. What they compute is held against the CPU's reference loops by\n"
    "`tests/cuda_on_host`, which runs their code, thread by thread, without nvcc and a device.\n"
    "\n"
    "| operator | CPU | CUDA | gradient | in place |\n"
    "|---|---|---|---|---|\n";

std::string Text(const ops::Attr& attr) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "must be given"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return absl::StrCat(i); }
    std::string operator()(double d) const { return absl::StrCat(d); }
    std::string operator()(const std::string& s) const { return absl::StrCat("\"", s, "\""); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return absl::StrCat("[", absl::StrJoin(v, ", "), "]");
    }
    std::string operator()(const std::vector<double>& v) const {
      return absl::StrCat("[", absl::StrJoin(v, ", "), "]");
    }
  };
  return std::visit(Visitor{}, attr);
}

// The types of each input slot in the rows of the test bench, for example "f32 or f16". The key is
// the operator.
using InputTypes = std::map<std::string, std::vector<std::string>>;

InputTypes TypesOfInputs() {
  std::map<std::string, std::vector<std::set<DType>>> found;
  for (const OpCase& row : AllCases()) {
    std::vector<std::set<DType>>& slots = found[row.op];
    slots.resize(std::max(slots.size(), row.inputs.size()));
    for (size_t i = 0; i < row.inputs.size(); ++i) {
      for (const Draw& draw : row.inputs[i]) slots[i].insert(draw.desc.dtype);
    }
  }
  InputTypes types;
  const auto add = [](std::string* out, DType type) { absl::StrAppend(out, Name(type)); };
  for (const auto& [op, slots] : found) {
    for (const std::set<DType>& slot : slots) types[op].push_back(absl::StrJoin(slot, " or ", add));
  }
  return types;
}

// Returns the list of the slots with their types as text. `types` may have fewer elements than
// there are slots.
std::string Slots(const ops::SlotList& slots, const std::vector<std::string>& types) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < slots.size(); ++i) {
    const ops::SlotDef& slot = slots[i];
    const std::string type = i < types.size() && !types[i].empty() ? " " + types[i] : "";
    const char* arity = slot.arity == ops::Arity::kOptional ? " (optional)"
                        : slot.arity == ops::Arity::kMany   ? " (any number)"
                                                            : "";
    texts.push_back(
        absl::StrCat(slot.name, type, arity, slot.shape_only ? " (its shape alone)" : ""));
  }
  return texts.empty() ? "none" : absl::StrJoin(texts, ", ");
}

// Returns the list of the slots that may share memory as text, for example "Out over X".
std::string Inplace(const ops::OpDef& def) {
  const auto add = [&def](std::string* out, const std::pair<int, int>& pair) {
    const auto name = [](const ops::SlotList& slots, int i) {
      return slots[std::min(static_cast<size_t>(i), slots.size() - 1)].name;
    };
    absl::StrAppend(out, name(def.outputs, pair.first), " over ", name(def.inputs, pair.second));
  };
  return absl::StrJoin(def.inplace, ", ", add);
}

constexpr const char* kCompiled = "compiled, never run on a device";

std::string Row(const ops::OpDef& def, const std::set<std::string>& cuda) {
  const auto impl = [](std::string* out, const ops::KernelImpl& i) {
    absl::StrAppend(out, i.name);
  };
  const std::string cpu =
      def.is_comm ? "communication" : absl::StrJoin(def.cpu_kernels(), ", ", impl);
  return absl::StrCat("| ", def.type, " | ", cpu, " | ",
                      (cuda.contains(def.type) ? kCompiled : WithoutCudaKernel(def.type)), " | ",
                      def.grad != nullptr ? "yes" : "no", " | ", Inplace(def), " |\n");
}

std::string Section(const ops::OpDef& def, const std::vector<std::string>& types) {
  std::string text = absl::StrCat("\n## ", def.type, "\n\n", def.doc, "\n\n");
  absl::StrAppend(&text, "- inputs: ", Slots(def.inputs, types), "\n");
  absl::StrAppend(&text, "- outputs: ", Slots(def.outputs, {}), "\n");
  for (const ops::AttrDef& attr : def.attrs) {
    absl::StrAppend(&text, "- `", attr.name, "` (", Text(ops::ToAttr(attr.default_value)),
                    "): ", attr.doc, "\n");
  }
  return text;
}

constexpr const char* kNccl = "NCCL, never run on a device";
constexpr const char* kDelayed =
    "no: an average with localsgd_configs.delay between CUDA places is not built yet";
constexpr const char* kSections = "no: pipeline between CUDA places is not built yet";
constexpr const char* kServers =
    "no: what talks to pservers reads and writes host memory, and modes PSERVER and HYBRID refuse "
    "CUDA places";
constexpr const char* kOuter = "no: pservers with a CUDA place refuse jobs with localsgd";
constexpr const char* kAttentionParts =
    "no: programs for CUDA places keep the products and the softmax; the pass fused_attention runs "
    "for CPU places";

}  // namespace

std::string WithoutCudaKernel(std::string_view op) {
  static const std::map<std::string_view, const char*> rows = {
      {"buffered_momentum", kOuter},
      {"c_allgather_selected", kNccl},
      {"c_allreduce_begin", kDelayed},
      {"c_allreduce_end", kDelayed},
      {"c_allreduce_sum", kNccl},
      {"c_broadcast", kNccl},
      {"c_broadcast_params", kNccl},
      {"c_reduce_sum", kNccl},
      {"fused_attention", kAttentionParts},
      {"fused_attention_grad", kAttentionParts},
      {"geo_exchange", kServers},
      {"prefetch_rows", kServers},
      {"pull_rows", kServers},
      {"push_pull", kServers},
      {"push_rows", kServers},
      {"recv_v2", kSections},
      {"send_v2", kSections},
  };
  const auto row = rows.find(op);
  return row == rows.end() ? "" : row->second;
}

std::string SupportPage(const std::set<std::string>& cuda) {
  std::string page = kHead;
  for (const ops::OpDef* def : ops::AllOps()) page += Row(*def, cuda);
  InputTypes types = TypesOfInputs();
  for (const ops::OpDef* def : ops::AllOps()) page += Section(*def, types[def->type]);
  return page;
}

StatusOr<std::set<std::string>> CudaOps(const std::string& path) {
  TD_ASSIGN_OR_RETURN(const exec::BackendModule* module, OpenModule(path));
  std::set<std::string> ops;
  for (const ops::KernelRegistration& row : module->kernels()) ops.insert(row.op);
  return ops;
}

std::set<std::string> CudaOpsOfPage(const std::string& page) {
  std::set<std::string> ops;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    if (cells.size() == 5 && cells[2] == kCompiled) ops.insert(cells[0].substr(2));
  }
  return ops;
}

}  // namespace tandem::optest
