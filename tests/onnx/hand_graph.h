// A helper that builds ONNX graphs by hand, for tests.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/tensor/device.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/import.h"

namespace tandem::onnx {

// An ONNX graph with the input "x" of shape [N, ...].
class HandGraph {
 public:
  explicit HandGraph(const std::vector<int64_t>& dims, int64_t opset = 13) {
    model_.set_ir_version(7);
    model_.add_opset_import()->set_version(opset);
    ::onnx::ValueInfoProto* input = graph_.add_input();
    input->set_name("x");
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(::onnx::TensorProto::FLOAT);
    type->mutable_shape()->add_dim()->set_dim_param("N");
    for (const int64_t size : dims) type->mutable_shape()->add_dim()->set_dim_value(size);
  }

  void SetType(::onnx::TensorProto::DataType type) {
    graph_.mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  }
  // Makes "x" an input of integers.
  void SetIntegers() { SetType(::onnx::TensorProto::INT64); }
  void SetBatch(int64_t size) {
    graph_.mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_value(size);
  }
  ::onnx::NodeProto& Node(const std::string& type, const std::vector<std::string>& inputs,
                          const std::string& out) {
    ::onnx::NodeProto& node = *graph_.add_node();
    node.set_op_type(type);
    for (const std::string& name : inputs) node.add_input(name);
    node.add_output(out);
    return node;
  }
  void Constant(const std::string& name, const std::vector<int64_t>& values) {
    ::onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(::onnx::TensorProto::INT64);
    tensor.add_dims(static_cast<int64_t>(values.size()));
    for (const int64_t value : values) tensor.add_int64_data(value);
  }
  void Weight(const std::string& name, const std::vector<int64_t>& dims, float value) {
    ::onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(::onnx::TensorProto::FLOAT);
    for (const int64_t size : dims) tensor.add_dims(size);
    for (int64_t i = 0; i < Shape(dims).numel(); ++i) tensor.add_float_data(value);
  }

  void Numbers(const std::string& name, const std::vector<int64_t>& dims,
               const std::vector<float>& values) {
    Weight(name, dims, 0);
    ::onnx::TensorProto& tensor = *graph_.mutable_initializer(graph_.initializer_size() - 1);
    std::copy(values.begin(), values.end(), tensor.mutable_float_data()->begin());
  }

  // Adds numbers of type DOUBLE. The reference is valid until the next tensor is added.
  ::onnx::TensorProto& Doubles(const std::string& name, const std::vector<int64_t>& dims,
                               const std::vector<double>& values) {
    ::onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(::onnx::TensorProto::DOUBLE);
    for (const int64_t size : dims) tensor.add_dims(size);
    for (const double value : values) tensor.add_double_data(value);
    return tensor;
  }

  // Adds integers of any shape.
  void Integers(const std::string& name, const std::vector<int64_t>& dims,
                const std::vector<int64_t>& values) {
    Constant(name, values);
    ::onnx::TensorProto& tensor = *graph_.mutable_initializer(graph_.initializer_size() - 1);
    tensor.clear_dims();
    for (const int64_t size : dims) tensor.add_dims(size);
  }

  // Adds the weight "w" [6,4], whose 24 values are external data in the file `location` of
  // directory `folder`. The reference is valid until the next tensor is added.
  ::onnx::TensorProto& External(const std::string& folder, const std::string& location,
                                const std::string& offset = "0", const std::string& length = "96") {
    folder_ = folder;
    ::onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name("w");
    tensor.set_data_type(::onnx::TensorProto::FLOAT);
    tensor.add_dims(6);
    tensor.add_dims(4);
    tensor.set_data_location(::onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : std::map<std::string, std::string>{
             {"location", location}, {"offset", offset}, {"length", length}}) {
      ::onnx::StringStringEntryProto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    Node("MatMul", {"x", "w"}, "y");
    return tensor;
  }

  // Imports the graph. The output of the model is `output`; empty: the output of the last node.
  StatusOr<ImportedModel> Import(ImportOptions::Loss loss = ImportOptions::Loss::kNone,
                                 const std::string& output = "",
                                 const std::set<std::string>& constants = {}) const {
    ::onnx::ModelProto model = model_;
    *model.mutable_graph() = graph_;
    const ::onnx::NodeProto& last = graph_.node(graph_.node_size() - 1);
    model.mutable_graph()->add_output()->set_name(output.empty() ? last.output(0) : output);
    ImportOptions options;
    options.dir = folder_;
    options.loss = loss;
    options.constants = constants;
    options.rename = {{"x", "x"}};
    return ImportModel(model.SerializeAsString(), "m.onnx", options, *device_);
  }
  std::string Refused(ImportOptions::Loss loss = ImportOptions::Loss::kNone) const {
    const auto import = Import(loss);
    EXPECT_FALSE(import.ok());
    return ToString(import.status());
  }

 private:
  ::onnx::ModelProto model_;
  ::onnx::GraphProto graph_;
  std::string folder_;
  // Allocates the tensors of imported models. The graph must outlive these models.
  std::shared_ptr<CpuDevice> device_ = std::make_shared<CpuDevice>();
};

inline ::onnx::AttributeProto& NodeAttr(::onnx::NodeProto& node, const std::string& name) {
  ::onnx::AttributeProto& attr = *node.add_attribute();
  attr.set_name(name);
  return attr;
}

inline void SetInts(::onnx::NodeProto& node, const std::string& name,
                    const std::vector<int64_t>& values) {
  ::onnx::AttributeProto& attr = NodeAttr(node, name);
  for (const int64_t value : values) attr.add_ints(value);
}

inline std::vector<std::string> Types(const graph::Program& program) {
  std::vector<std::string> types;
  for (const ops::Op& op : program.ops) types.push_back(op.type);
  return types;
}

}  // namespace tandem::onnx
