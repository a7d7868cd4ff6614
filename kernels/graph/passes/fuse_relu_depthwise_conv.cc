#include "kernels/graph/passes/fuse_relu_depthwise_conv.h"

#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

bool IsDepthwise(const Program& program, const ops::Op& op) {
  if (op.type != "conv2d" || !op.run_if.empty()) return false;
  const auto groups = op.attrs.find("groups");
  if (groups == op.attrs.end()) return false;
  const int64_t channels = program.FindVar(op.inputs[0][0])->desc.shape[1];
  return channels > 1 && std::get<int64_t>(groups->second) == channels;
}

}  // namespace

StatusOr<PassOutcome> FuseReluDepthwiseConv(Program& program, PassContext&) {
  const UseMap uses = FindUses(program);
  std::vector<bool> gone(program.ops.size());
  int64_t depthwise = 0, matched = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (!IsDepthwise(program, program.ops[i])) continue;
    ++depthwise;
    const std::string x = program.ops[i].inputs[0][0];
    const auto it = uses.find(x);
    if (it->second.writers.size() != 1 || !ReadOnlyBy(program, uses, x, i)) continue;
    const size_t writer = it->second.writers[0];
    const ops::Op& relu = program.ops[writer];
    if (relu.type != "relu" || !relu.run_if.empty()) continue;
    ops::Op op = program.ops[i];
    op.inputs[0] = relu.inputs[0];
    op.attrs["fuse_relu_before_depthwise_conv"] = true;
    gone[writer] = true;
    ++matched;
    TD_RETURN_IF_ERROR(ReplaceOp(program, i, std::move(op)));
  }
  RemoveOps(program, gone);
  if (matched > 0) return PassOutcome{matched, ""};
  if (depthwise == 0) return PassOutcome{0, "there is no depthwise convolution"};
  return PassOutcome{
      0,
      absl::StrFormat("none of %d depthwise convolutions is the only reader of a relu", depthwise)};
}

}  // namespace tandem::graph
