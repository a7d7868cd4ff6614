#include "kernels/graph/passes/fuse_conv_act.h"

#include "absl/strings/str_format.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {

StatusOr<PassOutcome> FuseConvAct(Program& program, PassContext& context) {
  if (context.place == PlaceKind::kCpu) return PassOutcome{0, "on CPU relu works in place"};
  const UseMap uses = FindUses(program);
  std::vector<bool> gone(program.ops.size());
  PassOutcome outcome;
  int64_t convolutions = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const ops::Op& conv = program.ops[i];
    if (conv.type != "conv2d" || !conv.run_if.empty()) continue;
    ++convolutions;
    const std::string& image = conv.outputs[0][0];
    const auto it = uses.find(image);
    if (it == uses.end() || it->second.readers.size() != 1) continue;
    const size_t at = it->second.readers[0];
    const ops::Op& relu = program.ops[at];
    if (relu.type != "relu" || !relu.run_if.empty() || !ReadOnlyBy(program, uses, image, at)) {
      continue;
    }
    if (uses.at(relu.outputs[0][0]).writers.size() != 1) continue;
    gone[at] = true;
    ++outcome.matched;
    TD_RETURN_IF_ERROR(ReplaceOp(program, i,
                                 {.type = "conv2d_relu",
                                  .inputs = conv.inputs,
                                  .outputs = relu.outputs,
                                  .attrs = conv.attrs}));
  }
  RemoveOps(program, gone);
  if (outcome.matched > 0) return outcome;
  outcome.reason =
      convolutions == 0
          ? "there is no conv2d"
          : absl::StrFormat(
                "none of %d conv2d is followed by a relu as the only reader of its output",
                convolutions);
  return outcome;
}

}  // namespace tandem::graph
