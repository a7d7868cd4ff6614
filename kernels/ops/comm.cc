// Communication operators. They have no kernels; a CommHandler (kernels/exec/comm.h) runs them.
// These operators work in place: the variables of slot Out are those of slot X or W. Exceptions are
// push_pull, push_rows, prefetch_rows, recv_v2 and c_allgather_selected.
#include "kernels/ops/comm.h"

#include "kernels/ops/core/infer.h"
#include "kernels/ops/rows/sparse_rows.h"
#include "kernels/ops/update/dgc.h"

namespace tandem::ops {
namespace {

Status InferSame(const OpView& view, std::span<TensorDesc> outputs) {
  if (view.in_count() != outputs.size()) {
    return view.Error(absl::StrFormat("there are %d inputs and %d outputs, expected equal numbers",
                                      view.in_count(), outputs.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!view.has_in(i)) return view.Error("input slot X is empty, expected at least one variable");
    outputs[i] = view.in(i);
  }
  return OkStatus();
}

Status InferAllGatherSelected(const OpView& view, std::span<TensorDesc> outputs) {
  const auto ranks = view.attr<int64_t>("ranks");
  if (ranks < 1 || ranks > 65536)
    return view.Error(absl::StrFormat("ranks=%d, expected at least 1", ranks));
  if (view.in_count() != outputs.size()) {
    return view.Error(absl::StrFormat("there are %d inputs and %d outputs, expected equal numbers",
                                      view.in_count(), outputs.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!view.has_in(i)) return view.Error("input slot X is empty, expected at least one variable");
    if (view.in(i).dtype != DType::kI32) return view.Error("input X must have element type i32");
    TD_RETURN_IF_ERROR(NeedRank(view, i, "X", 1));
    const int64_t words = view.in(i).shape[0];
    TD_RETURN_IF_ERROR(SelectionCapacity(view, "X", words).status());
    outputs[i] = {DType::kI32, {ranks, words}};
  }
  return OkStatus();
}

Status InferPullRows(const OpView& view, std::span<TensorDesc> outputs) {
  if (view.in(0).dtype != DType::kF32) return view.Error("input W must have element type f32");
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "W", 2));
  for (size_t i = 1; i < view.in_count(); ++i) {
    if (!view.has_in(i))
      return view.Error("input slot Ids is empty, expected at least one variable");
    if (view.in(i).dtype != DType::kI64) return view.Error("input Ids must have element type i64");
  }
  outputs[0] = view.in(0);
  return OkStatus();
}

Status InferPrefetchRows(const OpView& view, std::span<TensorDesc> outputs) {
  if (view.in(0).dtype != DType::kF32) return view.Error("input W must have element type f32");
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "W", 2));
  if (outputs.size() != view.in_count())
    return view.Error("the number of inputs Index must equal the number of inputs Ids");
  int64_t rows = view.attr<int64_t>("padding_idx") < 0 ? 0 : 1;
  for (size_t i = 1; i < view.in_count(); ++i) {
    if (!view.has_in(i))
      return view.Error("input slot Ids is empty, expected at least one variable");
    if (view.in(i).dtype != DType::kI64) return view.Error("input Ids must have element type i64");
    rows += view.in(i).shape.numel();
    outputs[i] = view.in(i);
  }
  outputs[0] = {DType::kF32, {rows, view.in(0).shape[1]}};
  return OkStatus();
}

Status InferPushRows(const OpView& view, std::span<TensorDesc>) {
  for (const size_t i : {0, 1}) {
    if (view.in(i).dtype != DType::kF32)
      return view.Error("inputs W and Grad must have element type f32");
  }
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "W", 2));
  if (view.has_in(3) && view.in(3).dtype != DType::kI64 && view.in(3).dtype != DType::kF32) {
    return view.Error("input Click must have element type i64 or f32");
  }
  return NeedSparseRows(view, 1, 2, view.in(0).shape[1]);
}

Status InferRecv(const OpView& view, std::span<TensorDesc> outputs) {
  if (view.attr<int64_t>("peer") < 0) return view.Error("attribute peer is not a valid rank");
  const StatusOr<Shape> shape = ParseShape(view.attr<std::vector<int64_t>>("out_shape"));
  if (!shape.ok())
    return view.Error("attribute out_shape is invalid: " + std::string(shape.status().message()));
  const StatusOr<DType> dtype = ParseDType(view.attr<std::string>("dtype"));
  if (!dtype.ok())
    return view.Error("attribute dtype is invalid: " + std::string(dtype.status().message()));
  outputs[0] = {*dtype, *shape};
  return OkStatus();
}

}  // namespace

constinit const OpDef kSendV2 = {
    .type = "send_v2",
    .doc = "X goes to rank `peer`, which has a recv_v2 for it; in place.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = {{"peer", int64_t{0}, "rank that gets it"}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kRecvV2 = {
    .type = "recv_v2",
    .doc =
        "What rank `peer` sends with send_v2. Behind: variables whose sends have ended before it "
        "begins, so that their memory is free again.",
    .inputs = {{"Behind", Arity::kMany}},
    .outputs = {{"Out"}},
    .attrs = {{"peer", int64_t{0}, "rank that it comes from"},
              {"out_shape", std::span<const int64_t>(), "shape of Out"},
              {"dtype", std::string_view("f32"), "element type of Out"}},
    .infer = InferRecv,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kAllReduceSum = {
    .type = "c_allreduce_sum",
    .doc = "Sum of X over all ranks, in place, on every rank.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kAllReduceBegin = {
    .type = "c_allreduce_begin",
    .doc =
        "Starts the sum of X over all ranks, in place, and does not wait. Until a c_allreduce_end "
        "of the same variables, in this step or a later step, no operator may use X.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kAllReduceEnd = {
    .type = "c_allreduce_end",
    .doc =
        "Waits for the sum of X that c_allreduce_begin started; afterwards Out is the sum, in "
        "place. Does nothing if no sum was started.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kRankReduceSum = {
    .type = "c_reduce_sum",
    .doc = "Sum of X over all ranks, in place, on rank `root`; elsewhere Out is undefined.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .attrs = {{"root", int64_t{0}, "rank that gets the sum"},
              {"group", int64_t{0},
               "ranks of a group, of which each has a root; 0: one for all ranks"}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kAllGatherSelected = {
    .type = "c_allgather_selected",
    .doc =
        "Out [ranks, n]: the selections X [n] (kernels/ops/update/dgc.h) of all ranks, by rank; "
        "what they "
        "use of them travels. All ranks must have selected equally many elements.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .attrs = {{"ranks", int64_t{1}, "number of ranks"}},
    .infer = InferAllGatherSelected,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kBroadcast = {
    .type = "c_broadcast",
    .doc = "X of rank `root`, in place, on every rank.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .attrs = {{"root", int64_t{0}, "rank whose values everybody gets"}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kBroadcastParams = {
    .type = "c_broadcast_params",
    .doc =
        "The parameters X, which rank `root` keeps, on every rank. There Out is X itself; "
        "elsewhere "
        "it is other memory, and of X the description alone is used.",
    .inputs = {{"X", Arity::kMany, true}},
    .outputs = {{"Out", Arity::kMany}},
    .attrs = {{"root", int64_t{0}, "rank that keeps them"},
              {"group", int64_t{0},
               "ranks of a group, of which each has a root; 0: one for all ranks"}},
    .infer = InferSame,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kPushPull = {
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

constinit const OpDef kPullRows = {
    .type = "pull_rows",
    .doc =
        "Replaces the rows Ids of the table W, in place, by the rows of its pservers: in sync mode "
        "the "
        "rows after the update of the previous step, in other modes the current rows.",
    .inputs = {{"W"}, {"Ids", Arity::kMany}},
    .outputs = {{"Out"}},
    .infer = InferPullRows,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kPrefetchRows = {
    .type = "prefetch_rows",
    .doc =
        "The rows Ids of a table W that only pservers store, each once, by ascending ids, then "
        "zeros: "
        "Rows [n, dim], n = the number of all ids. Index: the position of each id in Rows. Only "
        "the "
        "shape of W is used.",
    .inputs = {{"W", Arity::kOne, true}, {"Ids", Arity::kMany}},
    .outputs = {{"Rows"}, {"Index", Arity::kMany}},
    .attrs = {{"padding_idx", int64_t{-1},
               "this id has Index 0, a row of zeros, and the other ids follow; -1: none"},
              {"table_rules", std::string_view(), "those of the lookups"},
              {"click", std::string_view(), "that of the lookups"}},
    .infer = InferPrefetchRows,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kPushRows = {
    .type = "push_rows",
    .doc =
        "Sends a sparse gradient of the table W, Grad and Rows, to the table's pservers; together "
        "with the push_pull that follows, if there is one. With prefetch_rows, Rows are positions "
        "in "
        "its output. With Click, the clicks of the records of the batch, the push contains for "
        "each "
        "row how often it was looked up, and how often in a clicked record. Only the shape of W is "
        "used.",
    .inputs = {{"W", Arity::kOne, true}, {"Grad"}, {"Rows"}, {"Click", Arity::kOptional}},
    .outputs = {},
    .infer = InferPushRows,
    .is_comm = true,
    .has_side_effect = true,
};

constinit const OpDef kGeoExchange = {
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

}  // namespace tandem::ops
