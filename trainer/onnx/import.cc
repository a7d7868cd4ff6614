#include "trainer/onnx/import.h"

#include <algorithm>
#include <climits>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/graph_reader.h"
#include "trainer/onnx/node.h"
#include "trainer/onnx/op_readers.h"
#include "trainer/onnx/patterns.h"
#include "trainer/onnx/torch_notes.h"

namespace tandem::onnx {
namespace {

using Loss = ImportOptions::Loss;

StatusOr<int64_t> OpsetOf(const ::onnx::ModelProto& model) {
  for (const auto& set : model.opset_import()) {
    if (!set.domain().empty() && set.domain() != "ai.onnx") continue;
    if (set.version() >= kOpsetMin && set.version() <= kOpsetMax) return set.version();
    return Unimplemented(
        "the model uses opset %d, but this program reads only opsets %d to %d [TD1218]; hint: "
        "export the model with opset_version=20",
        set.version(), kOpsetMin, kOpsetMax);
  }
  return DataLoss("the file names no opset, so it is not an ONNX model [TD2108]");
}

// Returns the inputs that are data. Older models list their initializers as inputs too, so these
// are skipped.
std::vector<const ::onnx::ValueInfoProto*> DataInputs(const ::onnx::GraphProto& graph) {
  std::set<std::string> weights;
  for (const auto& tensor : graph.initializer()) weights.insert(tensor.name());
  std::vector<const ::onnx::ValueInfoProto*> inputs;
  for (const auto& input : graph.input()) {
    if (!weights.contains(input.name())) inputs.push_back(&input);
  }
  return inputs;
}

// Initializers for which the type of the reading node decides whether they are trained.
struct Roles {
  std::set<std::string> slopes;    // slopes of PRelu; may be a single number
  std::set<std::string> channels;  // scale and bias of InstanceNormalization
};

Roles RolesOf(const ::onnx::GraphProto& graph) {
  Roles roles;
  for (const auto& node : graph.node()) {
    const bool slope = node.op_type() == "PRelu";
    if (!slope && node.op_type() != "InstanceNormalization") continue;
    for (int i = 1; i < node.input_size(); ++i) {
      (slope ? roles.slopes : roles.channels).insert(node.input(i));
    }
  }
  return roles;
}

// Returns whether an initializer is a parameter. Without PyTorch's metadata, every initializer is a
// parameter. With the metadata, the listed parameters, slopes of PRelu, and other initializers are
// parameters. Exceptions are an unlisted single number (a constant factor), an unlisted scale or
// bias of an instance normalisation (from an exported group normalisation), and a buffer. A tensor
// without dimensions is a parameter only if the metadata or `scalars` list it.
bool IsTrained(const TorchSignature& signature, const Roles& roles,
               const std::set<std::string>& scalars, const ::onnx::TensorProto& tensor) {
  const std::string& name = tensor.name();
  if (signature.parameters.contains(name) || roles.slopes.contains(name)) return true;
  if (tensor.dims_size() == 0) return scalars.contains(name);
  if (!signature.known) return true;
  const bool one = std::all_of(tensor.dims().begin(), tensor.dims().end(),
                               [](int64_t size) { return size == 1; });
  return !one && !roles.channels.contains(name) && !signature.buffers.contains(name);
}

Status AddInitializers(const ::onnx::GraphProto& graph, const ImportOptions& options,
                       GraphReader* reader) {
  std::set<std::string> untrained = options.constants;
  untrained.insert(options.frozen.begin(), options.frozen.end());
  reader->SetUntrained(std::move(untrained));
  const TorchSignature signature = TorchSignatureOf(graph);
  const Roles roles = RolesOf(graph);
  for (const auto& tensor : graph.initializer()) {
    const bool trained = !options.constants.contains(tensor.name()) &&
                         IsTrained(signature, roles, options.scalars, tensor);
    TD_RETURN_IF_ERROR(reader->known().AddConstant(tensor.name(), tensor, trained));
  }
  return OkStatus();
}

// Adds messages to `notes` about changes that the exporter made and that the user may not know.
void AddNotes(const ::onnx::GraphProto& graph, std::vector<std::string>* notes) {
  const bool asks = std::any_of(graph.node().begin(), graph.node().end(),
                                [](const auto& node) { return node.op_type() == "IsNaN"; });
  if (asks) {
    notes->push_back(
        "a test for NaN is omitted; hint: give each row of an attention mask at least one value "
        "that is not masked");
  }
  const auto folded = std::count_if(graph.node().begin(), graph.node().end(), HasFoldedBatchNorm);
  if (folded == 0) return;
  notes->push_back(absl::StrFormat(
      "the exporter merged %d batch normalisations into the preceding layers, which are trained "
      "without their statistics; hint: export with torch.onnx.export(..., optimize=False)",
      folded));
}

Status AddInputs(const ::onnx::GraphProto& graph, const ImportOptions& options,
                 GraphReader* reader) {
  const auto inputs = DataInputs(graph);
  std::vector<std::string> names;
  for (const auto* input : inputs) names.push_back(input->name());
  for (const auto& [name, var] : options.rename) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return NotFound("the model has no input \"%s\"%s (inputs: %s)", name, OrDidYouMean(name, names),
                    absl::StrJoin(names, ", "));
  }
  for (const auto* input : inputs) {
    const auto renamed = options.rename.find(input->name());
    std::string var = reader->program().NewVar(input->name());
    if (renamed != options.rename.end()) {
      var = renamed->second;
    } else if (inputs.size() == 1 && input->type().tensor_type().shape().dim_size() == 4) {
      var = "img";
    }
    TD_RETURN_IF_ERROR(reader->AddInput(*input, var));
  }
  return OkStatus();
}

StatusOr<std::string> OutputOf(const ::onnx::GraphProto& graph, const std::string& wanted) {
  std::vector<std::string> names;
  for (const auto& output : graph.output()) names.push_back(output.name());
  if (wanted.empty() && names.size() == 1) return names[0];
  const std::string all = absl::StrJoin(names, ", ");
  if (wanted.empty()) {
    return InvalidArgument("the model has %d outputs: %s; hint: choose one with --loss_of=NAME",
                           names.size(), all);
  }
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  return NotFound("the model has no output \"%s\"%s (outputs: %s)", wanted,
                  OrDidYouMean(wanted, names), all);
}

// Returns the last node of the graph if it is an activation that the loss includes (softmax or
// sigmoid). Otherwise returns nullptr.
const ::onnx::NodeProto* LastActivation(const ::onnx::GraphProto& graph, const std::string& output,
                                        Loss loss) {
  for (const auto& node : graph.node()) {
    if (node.output_size() != 1 || node.output(0) != output || node.input_size() != 1) continue;
    const std::string& type = node.op_type();
    const bool softmax = loss == Loss::kSoftmax && (type == "Softmax" || type == "LogSoftmax");
    if (softmax || (loss == Loss::kSigmoid && type == "Sigmoid")) return &node;
  }
  return nullptr;
}

bool AnyReads(const ::onnx::GraphProto& graph, const std::string& value) {
  return std::any_of(graph.node().begin(), graph.node().end(), [&](const auto& node) {
    return std::find(node.input().begin(), node.input().end(), value) != node.input().end();
  });
}

// Reads a node. `last`: the node is the result of LastActivation.
Status ReadNode(const ::onnx::GraphProto& graph, const ::onnx::NodeProto& proto, bool last,
                GraphReader* reader) {
  if (proto.output_size() == 0) return InvalidArgument("the node has no output [TD2108]");
  if (!proto.domain().empty() && proto.domain() != "ai.onnx") {
    return Unimplemented("the operator domain \"%s\" is not supported [TD1215]", proto.domain());
  }
  const Node node(proto, *reader);
  if (last && proto.op_type() != "Sigmoid") TD_RETURN_IF_ERROR(CheckSoftmax(node));
  if (!last || AnyReads(graph, proto.output(0))) {
    TD_RETURN_IF_ERROR(ConvertNode(proto.op_type(), node));
  }
  return node.attributes().AllRead();
}

// Reads all nodes except the nodes in `gone`.
Status ReadNodes(const ::onnx::GraphProto& graph, const std::set<const ::onnx::NodeProto*>& gone,
                 const ::onnx::NodeProto* last, GraphReader* reader) {
  for (int i = 0; i < graph.node_size(); ++i) {
    const ::onnx::NodeProto& proto = graph.node(i);
    if (gone.contains(&proto)) continue;
    const Status status = ReadNode(graph, proto, &proto == last, reader);
    if (status.ok()) continue;
    return Annotate(status,
                    absl::StrFormat("node %d, %s \"%s\"", i, proto.op_type(), proto.name()));
  }
  return OkStatus();
}

// Adds the data variable "label" of shape `shape`. The first dimension of the label is the batch,
// as in `logits`.
Status AddLabel(const std::string& logits, const Shape& shape, GraphReader* reader) {
  TD_RETURN_IF_ERROR(reader->program().BatchOf(logits).status());
  if (!reader->program().HasBatch(logits)) {
    return InvalidArgument(
        "the output has shape %s, and its first dimension is not the batch; hint: use --loss=none",
        ToString(reader->program().Desc(logits).shape));
  }
  return reader->program().AddVar({.name = "label",
                                   .kind = graph::VarKind::kData,
                                   .desc = {DType::kI64, shape},
                                   .batch_leading = true});
}

Status MeanLoss(const std::string& rows, graph::Program* program, GraphReader* reader) {
  program->loss = reader->program().NewVar("loss");
  return reader->program().Append("mean", {{rows}}, {}, program->loss);
}

// Adds the softmax loss. The logits [..., classes] are reshaped to rows, the labels to a column.
Status SoftmaxLoss(std::string logits, GraphReader* reader, graph::Program* program) {
  const Shape shape = reader->program().Desc(logits).shape;
  if (shape.rank() < 2) {
    return InvalidArgument(
        "the output has shape %s, expected one row of logits for each sample; hint: use "
        "--loss=none",
        ToString(shape));
  }
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end() - 1);
  if (dims.size() == 1) dims.push_back(1);
  TD_RETURN_IF_ERROR(AddLabel(logits, Shape(dims), reader));
  std::string label = "label";
  if (shape.rank() > 2) {
    const std::vector<int64_t> rows = {-1, shape[shape.rank() - 1]};
    const std::string flat = reader->program().NewVar("loss.logits"),
                      column = reader->program().NewVar("loss.label");
    TD_RETURN_IF_ERROR(reader->program().Append("reshape", {{logits}}, {{"shape", rows}}, flat));
    TD_RETURN_IF_ERROR(reader->program().Append("reshape", {{label}},
                                                {{"shape", std::vector<int64_t>{-1, 1}}}, column));
    logits = flat;
    label = column;
  }
  const std::string rows = reader->program().NewVar("loss.rows");
  TD_RETURN_IF_ERROR(reader->program().Append(
      ops::Op{.type = "softmax_with_cross_entropy",
              .inputs = {{logits}, {label}},
              .outputs = {{reader->program().NewVar("loss.softmax")}, {rows}}}));
  TD_RETURN_IF_ERROR(MeanLoss(rows, program, reader));
  program->metrics = {reader->program().NewVar("accuracy")};
  return reader->program().Append("accuracy", {{logits}, {label}}, {}, program->metrics[0]);
}

Status SigmoidLoss(const std::string& logits, GraphReader* reader, graph::Program* program) {
  TD_RETURN_IF_ERROR(AddLabel(logits, reader->program().Desc(logits).shape, reader));
  const std::string rows = reader->program().NewVar("loss.rows");
  TD_RETURN_IF_ERROR(reader->program().Append(
      ops::Op{.type = "sigmoid_cross_entropy",
              .inputs = {{logits}, {"label"}},
              .outputs = {{reader->program().NewVar("loss.sigmoid")}, {rows}}}));
  return MeanLoss(rows, program, reader);
}

Status AddLoss(const std::string& output, Loss loss, GraphReader* reader, graph::Program* program) {
  TD_ASSIGN_OR_RETURN(const std::string var, reader->Var(output));
  if (reader->program().Desc(var).dtype != DType::kF32) {
    return InvalidArgument(
        "output \"%s\" contains integers, expected floating-point numbers; hint: use --loss=none",
        output);
  }
  switch (loss) {
    case Loss::kSoftmax:
      return SoftmaxLoss(var, reader, program);
    case Loss::kSigmoid:
      return SigmoidLoss(var, reader, program);
    case Loss::kNone:
      return OkStatus();
  }
  return OkStatus();
}

Status Read(::onnx::ModelProto& model, const ImportOptions& options, Device& host,
            ImportedModel* out) {
  TD_ASSIGN_OR_RETURN(const int64_t opset, OpsetOf(model));
  const std::set<const ::onnx::NodeProto*> gone = FusePatterns(model.mutable_graph());
  const ::onnx::GraphProto& graph = model.graph();
  out->program.name = graph.name();
  ExternalData external(options.dir);
  GraphReader reader(opset, external, host, out);
  TD_RETURN_IF_ERROR(AddInitializers(graph, options, &reader));
  if (graph.sparse_initializer_size() > 0)
    return Unimplemented("sparse initializers are not supported [TD7015]");
  TD_RETURN_IF_ERROR(AddInputs(graph, options, &reader));
  TD_ASSIGN_OR_RETURN(std::string output, OutputOf(graph, options.output));
  const ::onnx::NodeProto* last = LastActivation(graph, output, options.loss);
  TD_RETURN_IF_ERROR(ReadNodes(graph, gone, last, &reader));
  if (last != nullptr) {
    out->notes.push_back(absl::StrFormat(
        "the last node, %s, is omitted, because the loss contains it", last->op_type()));
    output = last->input(0);
  }
  AddNotes(graph, &out->notes);
  TD_ASSIGN_OR_RETURN(out->output, reader.Var(output));
  TD_RETURN_IF_ERROR(AddLoss(output, options.loss, &reader, &out->program));
  return graph::Verify(out->program);
}

}  // namespace

StatusOr<ImportedModel> ImportModel(std::string_view bytes, const std::string& name,
                                    const ImportOptions& options, Device& host) {
  ::onnx::ModelProto model;
  if (bytes.size() > INT_MAX ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss("%s is not an ONNX model, or the file is damaged [TD2108]", name);
  }
  ImportedModel out;
  TD_RETURN_IF_ERROR(Annotate(Read(model, options, host, &out), name));
  return out;
}

}  // namespace tandem::onnx
