#include "kernels/graph/passes/fused_attention.h"

#include <algorithm>
#include <optional>

#include "kernels/graph/op_device.h"
#include "kernels/graph/passes/rewrite.h"
#include "kernels/ops/cpu/fast_half.h"
#include "proto/strategy.pb.h"

namespace tandem::graph {
namespace {

using Ints = std::vector<int64_t>;

// Returns the value of an attribute, or the default of the operator's definition.
template <typename T>
T AttrOf(const ops::Op& op, std::string_view name) {
  if (const auto it = op.attrs.find(name); it != op.attrs.end()) return std::get<T>(it->second);
  for (const ops::AttrDef& attr : ops::FindOp(op.type)->attrs) {
    if (name == attr.name) return std::get<T>(ops::ToAttr(attr.default_value));
  }
  return T{};
}

// The operators of one attention, as indices.
struct Parts {
  size_t scores, softmax, values;
  std::optional<size_t> dropout;
};

// The operators around an attention that move the elements of Q, K, V and Out, as indices.
struct Moves {
  size_t transpose, split;  // make Q, K and V from one tensor
  size_t back, reshape;     // make rows from Out
};

class AttentionFuser {
 public:
  // `pipeline`: the devices of operators are sections of a pipeline. An attention that is in two
  // sections moves to the section of its last operator, so that each pipeline of a program has the
  // same operators, and the bits of one rank.
  AttentionFuser(Program& program, bool pipeline)
      : program_(program),
        pipeline_(pipeline),
        uses_(FindUses(program)),
        gone_(program.ops.size()) {}

  StatusOr<PassOutcome> Run();

 private:
  const ops::Op& OpAt(size_t i) const { return program_.ops[i]; }
  // Returns the only reader of the first output of operator `i`, if it has type `type` and runs
  // always, on the same device.
  std::optional<size_t> Next(size_t i, const std::string& type) const;
  // Returns the only writer of `var`, if it has type `type` and runs always.
  std::optional<size_t> WriterOf(const std::string& var, const std::string& type) const;
  bool SameDevice(size_t a, size_t b) const;
  std::optional<Parts> PartsAt(size_t scores) const;
  // Returns whether no operator changes `var` after its first write.
  bool Stays(const std::string& var) const;
  std::optional<Moves> MovesAround(const Parts& parts) const;
  ops::Op Fused(const Parts& parts) const;
  Status Fuse(const Parts& parts);

  Program& program_;
  const bool pipeline_;
  const UseMap uses_;
  std::vector<bool> gone_;
  int64_t softmaxes_ = 0, matched_ = 0;
};

bool AttentionFuser::SameDevice(size_t a, size_t b) const {
  if (pipeline_) return true;
  const auto device = [this](size_t i) {
    const auto it = OpAt(i).attrs.find(kOpDevice);
    return it == OpAt(i).attrs.end() ? ops::Attr() : it->second;
  };
  return device(a) == device(b);
}

std::optional<size_t> AttentionFuser::Next(size_t i, const std::string& type) const {
  const std::string& var = OpAt(i).outputs[0][0];
  const auto it = uses_.find(var);
  if (it == uses_.end() || it->second.readers.size() != 1) return std::nullopt;
  const size_t reader = it->second.readers[0];
  const ops::Op& op = OpAt(reader);
  const bool good = op.type == type && op.run_if.empty() && !op.inputs.empty() &&
                    op.inputs[0] == std::vector<std::string>{var} && !gone_[reader] &&
                    SameDevice(i, reader) && ReadOnlyBy(program_, uses_, var, reader);
  return good ? std::optional(reader) : std::nullopt;
}

std::optional<size_t> AttentionFuser::WriterOf(const std::string& var,
                                               const std::string& type) const {
  const auto it = uses_.find(var);
  if (it == uses_.end() || it->second.writers.size() != 1) return std::nullopt;
  const size_t writer = it->second.writers[0];
  const bool good = OpAt(writer).type == type && OpAt(writer).run_if.empty() && !gone_[writer];
  return good ? std::optional(writer) : std::nullopt;
}

std::optional<Parts> AttentionFuser::PartsAt(size_t scores) const {
  const ops::Op& first = OpAt(scores);
  if (first.type != "matmul" || !first.run_if.empty() || AttrOf<bool>(first, "trans_x") ||
      !AttrOf<bool>(first, "trans_y") ||
      program_.FindVar(first.inputs[0][0])->desc.dtype != DType::kF32) {
    return std::nullopt;
  }
  Parts parts{scores, 0, 0, std::nullopt};
  const auto softmax = Next(scores, "softmax");
  if (!softmax) return std::nullopt;
  parts.softmax = *softmax;
  parts.dropout = Next(parts.softmax, "dropout");
  const size_t weights = parts.dropout.value_or(parts.softmax);
  const auto values = Next(weights, "matmul");
  if (!values) return std::nullopt;
  parts.values = *values;
  const ops::Op& last = OpAt(parts.values);
  if (AttrOf<bool>(last, "trans_x") || AttrOf<bool>(last, "trans_y") ||
      AttrOf<double>(last, "alpha") != 1.0) {
    return std::nullopt;
  }
  bool stay = Stays(last.inputs[1][0]);
  ForEachRead(first, [&](const std::string& name) { stay = stay && Stays(name); });
  if (parts.dropout) stay = stay && Stays(OpAt(*parts.dropout).inputs[1][0]);
  return stay ? std::optional(parts) : std::nullopt;
}

ops::Op AttentionFuser::Fused(const Parts& parts) const {
  const ops::Op &scores = OpAt(parts.scores), &values = OpAt(parts.values);
  ops::Op op{.type = "fused_attention",
             .inputs = {scores.inputs[0], scores.inputs[1], values.inputs[1], {}},
             .outputs = {values.outputs[0]}};
  op.attrs["alpha"] = AttrOf<double>(scores, "alpha");
  op.attrs["causal"] = AttrOf<bool>(OpAt(parts.softmax), "causal");
  if (parts.dropout) {
    const ops::Op& dropout = OpAt(*parts.dropout);
    op.inputs[3] = dropout.inputs[1];
    op.attrs["dropout_prob"] = AttrOf<double>(dropout, "dropout_prob");
    op.attrs["name"] = AttrOf<std::string>(dropout, "name");
    op.attrs["is_test"] = AttrOf<bool>(dropout, "is_test");
  }
  return op;
}

bool AttentionFuser::Stays(const std::string& var) const {
  const auto it = uses_.find(var);
  const size_t writers = it == uses_.end() ? 0 : it->second.writers.size();
  return writers == (program_.FindVar(var)->kind == VarKind::kTemp ? 1 : 0);
}

std::optional<Moves> AttentionFuser::MovesAround(const Parts& parts) const {
  const std::string& q = OpAt(parts.scores).inputs[0][0];
  const std::string& k = OpAt(parts.scores).inputs[1][0];
  const std::string& v = OpAt(parts.values).inputs[1][0];
  const auto split = WriterOf(q, "split");
  if (!split || !SameDevice(*split, parts.scores)) return std::nullopt;
  const ops::Op& three = OpAt(*split);
  if (three.outputs[0] != std::vector<std::string>{q, k, v} || AttrOf<int64_t>(three, "axis") != 0)
    return std::nullopt;
  if (!ReadOnlyBy(program_, uses_, q, parts.scores) ||
      !ReadOnlyBy(program_, uses_, k, parts.scores) ||
      !ReadOnlyBy(program_, uses_, v, parts.values)) {
    return std::nullopt;
  }
  const auto transpose = WriterOf(three.inputs[0][0], "transpose");
  if (!transpose || Next(*transpose, "split") != split ||
      AttrOf<Ints>(OpAt(*transpose), "axis") != Ints{2, 0, 3, 1, 4}) {
    return std::nullopt;
  }
  const std::string& x = OpAt(*transpose).inputs[0][0];
  if (program_.FindVar(x)->desc.shape[2] != 3 || !Stays(x)) return std::nullopt;
  const auto back = Next(parts.values, "transpose");
  if (!back || AttrOf<Ints>(OpAt(*back), "axis") != Ints{0, 1, 3, 2, 4}) return std::nullopt;
  const auto reshape = Next(*back, "reshape");
  if (!reshape) return std::nullopt;
  // A 0 in the shape copies a dimension of the input, and the pass changes the input's dimensions.
  const Ints shape = AttrOf<Ints>(OpAt(*reshape), "shape");
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return std::nullopt;
  return Moves{*transpose, *split, *back, *reshape};
}

Status AttentionFuser::Fuse(const Parts& parts) {
  ops::Op op = Fused(parts);
  const auto moves = MovesAround(parts);
  if (moves) {
    op.inputs = {OpAt(moves->transpose).inputs[0], {}, {}, op.inputs[3]};
    const std::string out = program_.FreshName(op.outputs[0][0] + ".rows");
    op.outputs[0] = {out};
    program_.ops[moves->reshape].inputs[0] = {out};
    for (const size_t i : {moves->transpose, moves->split, moves->back}) gone_[i] = true;
  }
  op.outputs.push_back({program_.FreshName(op.outputs[0][0] + ".LogSum")});
  gone_[parts.scores] = gone_[parts.softmax] = true;
  if (parts.dropout) gone_[*parts.dropout] = true;
  ++matched_;
  return ReplaceOp(program_, parts.values, std::move(op));
}

StatusOr<PassOutcome> AttentionFuser::Run() {
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    if (OpAt(i).type == "softmax") ++softmaxes_;
    if (gone_[i]) continue;
    if (const auto parts = PartsAt(i)) TD_RETURN_IF_ERROR(Fuse(*parts));
  }
  RemoveOps(program_, gone_);
  if (matched_ > 0) return PassOutcome{matched_, ""};
  if (softmaxes_ == 0) return PassOutcome{0, "there is no softmax"};
  return PassOutcome{
      0, absl::StrFormat("none of %d softmax is between the products of an attention", softmaxes_)};
}

}  // namespace

StatusOr<PassOutcome> FuseAttention(Program& program, PassContext& context) {
  if (context.place != PlaceKind::kCpu)
    return PassOutcome{0, "fused_attention has a kernel for CPU places only"};
  const DistributedStrategy& strategy = context.strategy;
  const bool f16 = strategy.amp_configs().amp_dtype() == AmpConfigs::f16;
  if (strategy.amp() && ops::HasFastHalf(f16 ? DType::kF16 : DType::kBF16))
    return PassOutcome{0, "the 16-bit products of amp are faster on this CPU"};
  return AttentionFuser(program, strategy.pipeline()).Run();
}

}  // namespace tandem::graph
