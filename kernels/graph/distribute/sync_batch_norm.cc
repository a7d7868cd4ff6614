#include "kernels/graph/distribute/sync_batch_norm.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::graph {
namespace {

class Synchroniser {
 public:
  Synchroniser(Program& program, int rank, int ranks)
      : program_(program), before_(std::move(program.ops)), rank_(rank), ranks_(ranks) {
    program_.ops.clear();
  }

  // Changes the program. After an error the program is unusable.
  StatusOr<int64_t> Run() {
    for (ops::Op& op : before_) {
      const bool test = op.attrs.contains("is_test") && std::get<bool>(op.attrs.at("is_test"));
      if (!test && (op.type == "batch_norm" || op.type == "fused_bn_add_activation")) {
        TD_RETURN_IF_ERROR(Forward(op));
      } else if (!test && op.type == "batch_norm_grad") {
        TD_RETURN_IF_ERROR(Backward(op, ""));
      } else if (!test && op.type == "fused_bn_add_activation_grad") {
        TD_RETURN_IF_ERROR(Backward(op, op.inputs[5][0]));
      }
      TD_RETURN_IF_ERROR(AppendOp(program_, std::move(op)));
    }
    return found_;
  }

 private:
  Status Append(const ops::Op& like, ops::Op op) {
    op.role = like.role;
    op.source = like.source;
    return AppendOp(program_, std::move(op));
  }
  Status AllReduce(const ops::Op& like, const std::string& var) {
    return Append(like, {.type = "c_allreduce_sum", .inputs = {{var}}, .outputs = {{var}}});
  }

  // Inserts operators that compute the statistics over all ranks. `op` then normalises with these
  // statistics as if they were running statistics.
  Status Forward(ops::Op& op) {
    const std::string x = op.inputs[0][0];
    const std::string moments = program_.FreshName(x + "@MOMENTS");
    TD_RETURN_IF_ERROR(Append(op, {.type = "batch_norm_moments",
                                   .inputs = {{x}},
                                   .outputs = {{moments}},
                                   .attrs = {{"rank", rank_}, {"ranks", ranks_}}}));
    TD_RETURN_IF_ERROR(AllReduce(op, moments));
    const std::string mean = program_.FreshName(x + "@MEAN");
    const std::string variance = program_.FreshName(x + "@VARIANCE");
    ops::AttrMap attrs;
    if (op.attrs.contains("momentum")) attrs["momentum"] = op.attrs.at("momentum");
    TD_RETURN_IF_ERROR(Append(op, {.type = "batch_norm_merge",
                                   .inputs = {{moments}, op.inputs[3], op.inputs[4]},
                                   .outputs = {{mean}, {variance}, op.outputs[1], op.outputs[2]},
                                   .attrs = attrs}));
    op.inputs[3] = {mean};
    op.inputs[4] = {variance};
    op.outputs[1] = {program_.FreshName(mean + "@SAME")};
    op.outputs[2] = {program_.FreshName(variance + "@SAME")};
    op.attrs["is_test"] = true;
    ++found_;
    return OkStatus();
  }

  Status Backward(ops::Op& op, const std::string& y) {
    const std::string sums = program_.FreshName(op.inputs[4][0] + "@SUMS");
    ops::Op sum{.type = "batch_norm_grad_sums",
                .inputs = {op.inputs[0], op.inputs[2], op.inputs[4], {}},
                .outputs = {{sums}}};
    if (!y.empty()) sum.inputs[3] = {y};
    TD_RETURN_IF_ERROR(Append(op, std::move(sum)));
    TD_RETURN_IF_ERROR(AllReduce(op, sums));
    op.inputs.back() = {sums};
    return OkStatus();
  }

  Program& program_;
  std::vector<ops::Op> before_;
  const int64_t rank_, ranks_;
  int64_t found_ = 0;
};

}  // namespace

StatusOr<int64_t> SyncBatchNorm(Program& program, int rank, int ranks) {
  TD_REQUIRE(rank >= 0 && rank < ranks);
  return Synchroniser(program, rank, ranks).Run();
}

}  // namespace tandem::graph
