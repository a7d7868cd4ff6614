// Communication operators: no kernels; a CommHandler (kernels/exec/comm.h) runs them. All but
// push_pull work in place: the variables of Out are those of X.
#include "kernels/ops/comm.h"

namespace tandem {
namespace {

Status InferSame(const OpView& view, std::span<TensorDesc> outputs) {
  if (view.in_count() != outputs.size()) {
    return view.Error("as many outputs as inputs are needed");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!view.has_in(i)) return view.Error("at least one X is needed");
    outputs[i] = view.in(i);
  }
  return OkStatus();
}

}  // namespace

const OpDef kAllReduceSum = {
    .type = "c_allreduce_sum",
    .doc = "Sum of X over all ranks, in place, on every rank.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

const OpDef kRankReduceSum = {
    .type = "c_reduce_sum",
    .doc = "Sum of X over all ranks, in place, on rank `root`; elsewhere Out is undefined.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .attrs = {{"root", int64_t{0}, "rank that gets the sum"}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

const OpDef kBroadcast = {
    .type = "c_broadcast",
    .doc = "X of rank `root`, in place, on every rank.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .attrs = {{"root", int64_t{0}, "rank whose values everybody gets"}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

const OpDef kPushPull = {
    .type = "push_pull",
    .doc =
        "Sends the gradients X of the parameters Out to their pservers and replaces Out by what "
        "they have: after this step's update in sync mode, as it is in the other modes.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

const OpDef kGeoExchange = {
    .type = "geo_exchange",
    .doc =
        "Every k-th step: sends what this trainer changed in the parameters X since the last "
        "exchange to their pservers, and takes in what others changed.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

}  // namespace tandem
