#include "kernels/graph/builder.h"

#include "kernels/graph/op_device.h"
#include "kernels/ops/elementwise/dropout.h"

namespace tandem::graph {

ProgramBuilder::ProgramBuilder(std::string name, int64_t batch) : batch_(batch) {
  program_.name = std::move(name);
}

bool ProgramBuilder::Keep(const Status& status) {
  if (status_.ok()) status_ = status;
  return status_.ok();
}

bool ProgramBuilder::Append(ops::Op op) {
  if (!device_.empty()) op.attrs[kOpDevice] = device_;
  return Keep(AppendOp(program_, std::move(op)));
}

const TensorDesc* ProgramBuilder::Desc(const std::string& var) {
  if (!status_.ok()) return nullptr;
  const Var* found = program_.FindVar(var);
  if (found == nullptr) Keep(NotFound("there is no variable \"%s\" [TD1205]", var));
  return found == nullptr ? nullptr : &found->desc;
}

std::string ProgramBuilder::NextName(const std::string& layer) {
  return layer + "_" + std::to_string(counts_[layer]++);
}

std::string ProgramBuilder::Data(const std::string& name, DType dtype,
                                 std::vector<int64_t> sample_dims) {
  std::vector<int64_t> dims = std::move(sample_dims);
  dims.insert(dims.begin(), batch_);
  const auto shape = ParseShape(dims);
  if (!Keep(shape.status())) return "";
  const Var var = {
      .name = name, .kind = VarKind::kData, .desc = {dtype, *shape}, .batch_leading = true};
  return Keep(program_.AddVar(var)) ? name : "";
}

std::string ProgramBuilder::Param(const std::string& name, const Shape& shape, Init init) {
  const Var var = {
      .name = name, .kind = VarKind::kParam, .desc = {DType::kF32, shape}, .init = init};
  return Keep(program_.AddVar(var)) ? name : "";
}

std::string ProgramBuilder::State(const std::string& name, const TensorDesc& desc, Init init) {
  const Var var = {.name = name, .kind = VarKind::kState, .desc = desc, .init = init};
  return Keep(program_.AddVar(var)) ? name : "";
}

std::string ProgramBuilder::Layer(const std::string& type,
                                  std::vector<std::vector<std::string>> inputs,
                                  ops::AttrMap attrs) {
  return Named(NextName(type), type, std::move(inputs), std::move(attrs));
}

std::string ProgramBuilder::Named(const std::string& layer, const std::string& type,
                                  std::vector<std::vector<std::string>> inputs,
                                  ops::AttrMap attrs) {
  if (!status_.ok()) return "";
  const ops::OpDef* def = ops::FindOp(type);
  if (def == nullptr) {
    Keep(ops::GetOp(type).status());
    return "";
  }
  const std::string out = layer + ".out";
  std::vector<std::vector<std::string>> outputs = {{out}};
  // The name of each output after the first one ends with the name of its slot, such as
  // accuracy_0.out.Correct.
  for (size_t s = 1; s < def->outputs.size(); ++s) {
    outputs.push_back({program_.FreshName(out + "." + def->outputs[s].name)});
  }
  return Append({.type = type,
                 .inputs = std::move(inputs),
                 .outputs = std::move(outputs),
                 .attrs = std::move(attrs)})
             ? out
             : "";
}

std::string ProgramBuilder::Fc(const std::string& x, int64_t units, Act act) {
  const TensorDesc* desc = Desc(x);
  if (desc == nullptr) return "";
  std::string in = x;
  const int64_t k = desc->shape.numel(1, desc->shape.rank());
  if (desc->shape.rank() != 2) in = Reshape(x, {0, k});
  const std::string layer = NextName("fc");
  const std::string w = Param(layer + ".w", {k, units}, {Init::kXavierUniform});
  const std::string b = Param(layer + ".b", {units}, {Init::kConstant});
  const std::string out = Named(layer, "fc", {{in}, {w}, {b}}, {});
  return act == Act::kRelu ? Relu(out) : out;
}

std::string ProgramBuilder::Conv2d(const std::string& x, const ConvArgs& args) {
  const TensorDesc* desc = Desc(x);
  if (desc == nullptr) return "";
  if (desc->shape.rank() != 4) {
    Keep(
        InvalidArgument("conv2d of \"%s\": the input has shape %s, expected [batch, channels, "
                        "height, width] [TD1207]",
                        x, ToString(desc->shape)));
    return "";
  }
  const std::string layer = NextName("conv");
  if (args.groups < 1 || desc->shape[1] % args.groups != 0) {
    Keep(InvalidArgument("conv2d of \"%s\": %d channels cannot be divided into %d groups [TD1207]",
                         x, desc->shape[1], args.groups));
    return "";
  }
  const Shape filter = {args.channels, desc->shape[1] / args.groups, args.kernel, args.kernel};
  std::vector<std::vector<std::string>> inputs = {
      {x}, {Param(layer + ".w", filter, {Init::kMsraNormal})}, {}};
  if (args.bias) inputs[2] = {Param(layer + ".b", {args.channels}, {Init::kConstant})};
  const std::string out = Named(layer, "conv2d", std::move(inputs),
                                {{"strides", std::vector<int64_t>{args.stride, args.stride}},
                                 {"paddings", std::vector<int64_t>{args.padding, args.padding}},
                                 {"groups", args.groups}});
  return args.act == Act::kRelu ? Relu(out) : out;
}

std::string ProgramBuilder::BatchNorm(const std::string& x, Act act) {
  const TensorDesc* desc = Desc(x);
  if (desc == nullptr) return "";
  const std::string layer = NextName("batch_norm");
  if (desc->shape.rank() < 2) {
    Keep(
        InvalidArgument("batch_norm of \"%s\": the shape %s has no dimension for channels [TD1207]",
                        x, ToString(desc->shape)));
    return "";
  }
  const Shape channels = {desc->shape[1]};
  const std::string w = Param(layer + ".w", channels, {Init::kConstant, 1.0f});
  const std::string b = Param(layer + ".b", channels, {Init::kConstant, 0.0f});
  const std::string mean = State(layer + ".mean", {DType::kF32, channels}, {Init::kConstant, 0.0f});
  const std::string variance =
      State(layer + ".variance", {DType::kF32, channels}, {Init::kConstant, 1.0f});
  if (!status_.ok()) return "";
  const std::string out = layer + ".out";
  ops::Op op = {
      .type = "batch_norm",
      .inputs = {{x}, {w}, {b}, {mean}, {variance}},
      .outputs = {
          {out}, {mean}, {variance}, {layer + ".out.SavedMean"}, {layer + ".out.SavedInvStd"}}};
  if (!Append(std::move(op))) return "";
  return act == Act::kRelu ? Relu(out) : out;
}

std::string ProgramBuilder::LayerNorm(const std::string& x) {
  const TensorDesc* desc = Desc(x);
  if (desc == nullptr) return "";
  const std::string layer = NextName("layer_norm");
  const int last = desc->shape.rank() - 1;
  if (last < 0) {
    Keep(InvalidArgument(
        "layer_norm of \"%s\": the input is a scalar, expected at least 1 dimension [TD1207]", x));
    return "";
  }
  const Shape row = {desc->shape[last]};
  const std::string w = Param(layer + ".w", row, {Init::kConstant, 1.0f});
  const std::string b = Param(layer + ".b", row, {Init::kConstant, 0.0f});
  return Named(layer, "layer_norm", {{x}, {w}, {b}}, {{"begin_norm_axis", int64_t{last}}});
}

std::string ProgramBuilder::Dropout(const std::string& x, double probability) {
  if (probability == 0 || !status_.ok()) return x;
  if (program_.FindVar(ops::kDropoutPosition) == nullptr) {
    State(ops::kDropoutPosition, {DType::kI64, {4}}, {Init::kConstant});
    if (!status_.ok()) return "";
    program_.FindVar(ops::kDropoutPosition)->saved = false;
  }
  const std::string layer = NextName("dropout");
  return Named(layer, "dropout", {{x}, {ops::kDropoutPosition}},
               {{"dropout_prob", probability}, {"name", layer}});
}

std::string ProgramBuilder::Transpose(const std::string& x, std::vector<int64_t> order) {
  return Layer("transpose", {{x}}, {{"axis", std::move(order)}});
}

std::vector<std::string> ProgramBuilder::Split(const std::string& x, int64_t axis, int64_t num) {
  return SplitInto(x, static_cast<size_t>(num), {{"axis", axis}, {"num", num}});
}

std::vector<std::string> ProgramBuilder::Split(const std::string& x, int64_t axis,
                                               std::vector<int64_t> sections) {
  const size_t count = sections.size();
  return SplitInto(x, count, {{"axis", axis}, {"sections", std::move(sections)}});
}

std::vector<std::string> ProgramBuilder::SplitInto(const std::string& x, size_t count,
                                                   ops::AttrMap attrs) {
  std::vector<std::string> parts(count);
  if (!status_.ok()) return parts;
  const std::string layer = NextName("split");
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = layer + ".out" + std::to_string(i);
  ops::Op op = {.type = "split", .inputs = {{x}}, .outputs = {parts}, .attrs = std::move(attrs)};
  return Append(std::move(op)) ? parts : std::vector<std::string>(count);
}

std::string ProgramBuilder::Pool2d(const std::string& x, const PoolArgs& args) {
  return Layer("pool2d", {{x}},
               {{"pooling_type", std::string(args.max ? "max" : "avg")},
                {"ksize", std::vector<int64_t>{args.kernel, args.kernel}},
                {"strides", std::vector<int64_t>{args.stride, args.stride}},
                {"paddings", std::vector<int64_t>{args.padding, args.padding}},
                {"global_pooling", args.global}});
}

std::string ProgramBuilder::Embedding(const std::string& ids, const EmbeddingArgs& args) {
  const std::string layer = NextName("embedding");
  const std::string w = Param(layer + ".w", {args.rows, args.dim}, args.init);
  ops::AttrMap attrs = {{"is_sparse", args.sparse || args.distributed},
                        {"padding_idx", args.padding_idx},
                        {"squeeze_last", false}};
  if (args.distributed) attrs["is_distributed"] = true;
  if (!args.rules.empty()) attrs["table_rules"] = args.rules;
  if (!args.click.empty()) attrs["click"] = args.click;
  return Named(layer, "lookup_table", {{ids}, {w}}, std::move(attrs));
}

std::string ProgramBuilder::Relu(const std::string& x) { return Layer("relu", {{x}}, {}); }

std::string ProgramBuilder::Add(const std::string& x, const std::string& y) {
  return Layer("elementwise_add", {{x}, {y}}, {});
}

std::string ProgramBuilder::Reshape(const std::string& x, std::vector<int64_t> dims) {
  return Layer("reshape", {{x}}, {{"shape", std::move(dims)}});
}

void ProgramBuilder::SetLoss(const std::string& rows, const std::string& weight) {
  const TensorDesc* const desc = Desc(rows);
  if (desc == nullptr) return;
  std::string weighted = rows;
  if (!weight.empty()) {
    if (desc->shape.numel(1, desc->shape.rank()) > 1) {
      weighted =
          Layer("reduce_mean", {{rows}}, {{"dim", std::vector<int64_t>{1}}, {"keep_dim", true}});
    }
    weighted = Layer("elementwise_mul", {{weighted}, {weight}}, {});
  }
  program_.loss = Layer("mean", {{weighted}}, {});
}

std::string ProgramBuilder::SoftmaxLoss(const std::string& logits, const std::string& label,
                                        double factor, const std::string& weight) {
  if (!status_.ok()) return "";
  const std::string layer = NextName("softmax_loss");
  const std::string rows = layer + ".rows";
  ops::Op op = {.type = "softmax_with_cross_entropy",
                .inputs = {{logits}, {label}},
                .outputs = {{layer + ".softmax"}, {rows}}};
  if (!Append(std::move(op))) return "";
  SetLoss(rows, weight);
  if (factor != 1) program_.loss = Layer("scale", {{program_.loss}}, {{"scale", factor}});
  return program_.loss;
}

std::string ProgramBuilder::SigmoidLoss(const std::string& logits, const std::string& label,
                                        const std::string& weight) {
  if (!status_.ok()) return "";
  const std::string layer = NextName("sigmoid_loss");
  ops::Op op = {.type = "sigmoid_cross_entropy",
                .inputs = {{logits}, {label}},
                .outputs = {{layer + ".sigmoid"}, {layer + ".rows"}}};
  if (!Append(std::move(op))) return "";
  SetLoss(layer + ".rows", weight);
  return layer + ".sigmoid";
}

std::string ProgramBuilder::RegressionLoss(const std::string& type, const std::string& prediction,
                                           const std::string& target, const std::string& weight) {
  SetLoss(Layer(type, {{prediction}, {target}}, {}), weight);
  return program_.loss;
}

std::string ProgramBuilder::Auc(const std::string& probability, const std::string& label) {
  // Number of buckets in the histograms of probabilities, as in Paddle's auc.
  constexpr int64_t kBuckets = 4096;
  const std::string layer = NextName("auc");
  std::vector<std::string> counts;
  for (const char* suffix : {"@positive", "@negative"}) {
    counts.push_back(layer + suffix);
    if (State(counts.back(), {DType::kI64, {kBuckets}}, {}).empty()) return "";
  }
  const std::string out = layer + ".out";
  ops::Op op = {.type = "auc",
                .inputs = {{probability}, {label}, {counts[0]}, {counts[1]}},
                .outputs = {{out}, {counts[0]}, {counts[1]}}};
  if (!Append(std::move(op))) return "";
  program_.metrics.push_back(out);
  return out;
}

std::string ProgramBuilder::SequencePool(const std::string& x, const std::string& type) {
  return Layer("sequence_pool", {{x}, {}}, {{"pooltype", type}});
}

std::string ProgramBuilder::Accuracy(const std::string& logits, const std::string& label) {
  const std::string out = Layer("accuracy", {{logits}, {label}}, {});
  if (!out.empty()) program_.metrics.push_back(out);
  return out;
}

StatusOr<Program> ProgramBuilder::Finish() {
  TD_RETURN_IF_ERROR(status_);
  TD_RETURN_IF_ERROR(Verify(program_));
  return std::move(program_);
}

}  // namespace tandem::graph
