#include "trainer/onnx/export/export.h"

#include <algorithm>
#include <climits>

#include "kernels/graph/for_test.h"
#include "kernels/graph/inference.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/export/graph_writer.h"
#include "trainer/onnx/export/op_writers.h"

namespace tandem::onnx {
namespace {

bool Reads(const ops::Op& op, const std::string& var) {
  bool found = false;
  graph::ForEachRead(op, [&](const std::string& name) { found |= name == var; });
  return found;
}

// Writes the descriptions of inputs and outputs. Sizes that depend on the batch get names.
class ValueInfo {
 public:
  static StatusOr<ValueInfo> Make(const graph::Program& program) {
    ValueInfo info;
    info.one_ = program;
    info.other_ = program;
    TD_RETURN_IF_ERROR(graph::BindBatch(info.one_, kBatch));
    TD_RETURN_IF_ERROR(graph::BindBatch(info.other_, kOtherBatch));
    return info;
  }

  void Write(const std::string& var, const std::string& name, ::onnx::ValueInfoProto* out) const {
    const TensorDesc& desc = one_.FindVar(var)->desc;
    const TensorDesc& other = other_.FindVar(var)->desc;
    out->set_name(name);
    ::onnx::TypeProto_Tensor* type = out->mutable_type()->mutable_tensor_type();
    type->set_elem_type(ElementTypeNumber(desc.dtype));
    ::onnx::TensorShapeProto* shape = type->mutable_shape();
    for (int axis = 0; axis < desc.shape.rank(); ++axis) {
      const int64_t size = desc.shape[axis];
      if (size == other.shape[axis]) {
        shape->add_dim()->set_dim_value(size);
      } else if (size == kBatch) {
        shape->add_dim()->set_dim_param("batch");
      } else {
        shape->add_dim()->set_dim_param(absl::StrFormat("batch_times_%d", size / kBatch));
      }
    }
  }

 private:
  static constexpr int64_t kBatch = 2, kOtherBatch = 3;
  graph::Program one_, other_;
};

Status WriteOps(const graph::Program& program, const std::vector<const ops::Op*>& ops,
                GraphWriter& graph) {
  for (const ops::Op* op : ops) {
    Status status =
        op->run_if.empty()
            ? WriteOp(program, *op, graph)
            : Unimplemented(
                  "operators with a condition (run_if) cannot be exported to ONNX [TD1217]");
    if (status.ok()) continue;
    return Annotate(
        status, absl::StrFormat("operator %d, %s of \"%s\"%s", op - program.ops.data(), op->type,
                                op->outputs[0].empty() ? "" : op->outputs[0][0],
                                op->source.empty() ? "" : " (" + op->source + ")"));
  }
  return OkStatus();
}

void WriteHead(const graph::Program& program, const trainer::StringMap& metadata,
               ::onnx::ModelProto* model) {
  model->set_ir_version(7);  // the version of the format that belongs to opset 12
  model->set_producer_name("tandem");
  ::onnx::OperatorSetIdProto* opset = model->add_opset_import();
  opset->set_domain("");
  opset->set_version(kOpset);
  for (const auto& [key, value] : metadata) {
    ::onnx::StringStringEntryProto* entry = model->add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  model->mutable_graph()->set_name(program.name.empty() ? "program" : program.name);
}

}  // namespace

StatusOr<ExportedModel> ExportModel(const graph::Program& training,
                                    const trainer::TensorMap& tensors,
                                    std::vector<std::string> outputs,
                                    const trainer::StringMap& metadata) {
  const graph::Program program = graph::ForTest(training);
  TD_ASSIGN_OR_RETURN(outputs, graph::ChooseOutputs(program, std::move(outputs)));
  TD_ASSIGN_OR_RETURN(const ValueInfo info, ValueInfo::Make(program));
  ::onnx::ModelProto model;
  WriteHead(program, metadata, &model);
  ::onnx::GraphProto& graph = *model.mutable_graph();
  GraphWriter writer(program, tensors, graph);
  const std::vector<const ops::Op*> ops = graph::OpsFor(program, outputs);
  TD_RETURN_IF_ERROR(WriteOps(program, ops, writer));
  ExportedModel result;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kData)) {
    if (std::none_of(ops.begin(), ops.end(),
                     [&](const ops::Op* op) { return Reads(*op, var->name); })) {
      continue;
    }
    info.Write(var->name, var->name, graph.add_input());
    result.inputs.push_back(var->name);
  }
  for (const std::string& var : outputs) {
    TD_ASSIGN_OR_RETURN(const std::string value, writer.Value(var));
    if (value != var) writer.Node("Identity", {value}, {var});
    info.Write(var, var, graph.add_output());
  }
  result.outputs = std::move(outputs);
  if (model.ByteSizeLong() > INT_MAX) {
    return ResourceExhausted(
        "the ONNX model has %d bytes, but an ONNX file is limited to 2 GiB; hint: export to "
        ".safetensors",
        model.ByteSizeLong());
  }
  result.bytes = model.SerializeAsString();
  return result;
}

}  // namespace tandem::onnx
