// Tests that the import of an exported model gives the same network, and that the export rejects
// unsupported operators by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "kernels/graph/builder.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/cases.h"
#include "trainer/onnx/export/export.h"
#include "trainer/onnx/import.h"

namespace tandem::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const OnnxCase& CaseOf(const std::string& name) {
  static const std::vector<OnnxCase> cases = OnnxCases();
  for (const OnnxCase& c : cases) {
    if (c.name == name) return c;
  }
  LOG(FATAL) << name;
}

StatusOr<ExportedModel> Exported(const graph::Program& program,
                                 std::vector<std::string> outputs = {}) {
  CpuDevice device;
  TD_ASSIGN_OR_RETURN(const trainer::TensorMap values, ValuesOf(program, device));
  return ExportModel(program, values, std::move(outputs), {});
}

// Applies `change` to the exported model of LeNet. Returns the error message of the import.
std::string Refused(const std::function<void(::onnx::ModelProto&)>& change,
                    const ImportOptions& options = {}) {
  const auto model = Exported(CaseOf("lenet").program);
  CHECK(model.ok()) << model.status();
  ::onnx::ModelProto proto;
  CHECK(proto.ParseFromString(model->bytes));
  change(proto);
  CpuDevice device;
  const auto import = ImportModel(proto.SerializeAsString(), "m.onnx", options, device);
  CHECK(!import.ok());
  EXPECT_THAT(import.status().message(), HasSubstr("m.onnx"));
  return ToString(import.status());
}

::onnx::NodeProto& NodeOf(::onnx::ModelProto& model, const std::string& type) {
  for (auto& node : *model.mutable_graph()->mutable_node()) {
    if (node.op_type() == type) return node;
  }
  LOG(FATAL) << type;
}

// Checks that no two nodes write a value of the same name, as ONNX requires.
void ExpectEveryValueOnce(const ExportedModel& model) {
  ::onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(model.bytes));
  std::set<std::string> names;
  const auto add = [&](const std::string& name) {
    EXPECT_TRUE(names.insert(name).second) << proto.graph().name() << ": " << name;
  };
  for (const auto& input : proto.graph().input()) add(input.name());
  for (const auto& tensor : proto.graph().initializer()) add(tensor.name());
  for (const auto& node : proto.graph().node()) {
    for (const std::string& out : node.output()) add(out);
  }
}

struct Network {
  graph::Program program;
  trainer::TensorMap values;
};

// Exports `network` and imports the model. Inputs keep their names. *output gets the name of the
// output, which is the same in both networks.
StatusOr<Network> Returned(const Network& network, std::string* output, Device& device) {
  TD_ASSIGN_OR_RETURN(const ExportedModel model,
                      ExportModel(network.program, network.values, {}, {}));
  ExpectEveryValueOnce(model);
  ImportOptions options;
  options.loss = ImportOptions::Loss::kNone;
  options.output = *output = model.outputs.back();
  for (const std::string& name : model.inputs) options.rename[name] = name;
  TD_ASSIGN_OR_RETURN(const ImportedModel back, ImportModel(model.bytes, "back", options, device));
  return Network{back.program, back.tensors};
}

// Computes `output` of `network`. Ignores `inputs` whose names are not variables of the network.
StatusOr<Tensor> ResultOf(const Network& network, const std::string& output,
                          const trainer::TensorMap& inputs, Device& device) {
  graph::Program program = network.program;
  TD_RETURN_IF_ERROR(graph::BindBatch(program, 4));
  trainer::TensorMap taken;
  for (const auto& [name, tensor] : inputs) {
    if (program.FindVar(name) != nullptr) taken[name] = tensor;
  }
  TD_ASSIGN_OR_RETURN(const trainer::TensorMap results,
                      RunForTest(program, network.values, taken, {output}, device));
  return results.at(output);
}

void ExpectNear(const Tensor& want, const Tensor& got) {
  ASSERT_EQ(want.desc(), got.desc());
  const auto x = want.span<float>(), y = got.span<float>();
  ASSERT_GT(x.size(), 0u);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(x[i], y[i], 1e-4 * std::max(1.0f, std::abs(x[i]))) << i;
  }
}

class RoundTrip : public testing::TestWithParam<const char*> {};

// The test makes two round trips, because names from the import could collide with names of the
// second export.
TEST_P(RoundTrip, GivesTheSameNumbers) {
  CpuDevice device;
  graph::Program program = CaseOf(GetParam()).program;
  ASSERT_TRUE(graph::BindBatch(program, 4).ok());
  const trainer::TensorMap inputs = *InputsOf(program, 3, device);
  Network network = {program, *ValuesOf(program, device)};
  std::string output;
  for (int trip = 0; trip < 2; ++trip) {
    const auto back = Returned(network, &output, device);
    ASSERT_TRUE(back.ok()) << back.status();
    const auto want = ResultOf(network, output, inputs, device);
    ASSERT_TRUE(want.ok()) << want.status();
    const auto got = ResultOf(*back, output, inputs, device);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_NO_FATAL_FAILURE(ExpectNear(*want, *got));
    network = *back;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RoundTrip,
                         testing::Values("lenet", "mlp", "resnet18", "mobilenet_v1", "residual_cnn",
                                         "wide_deep", "deepfm", "transformer_lm", "bert_base",
                                         "images", "numbers", "shapes", "forms"));

TEST(OnnxExport, GivesEveryValueOnce) {
  for (const OnnxCase& c : OnnxCases()) {
    const auto model = Exported(c.program);
    ASSERT_TRUE(model.ok()) << c.name << ": " << model.status();
    ExpectEveryValueOnce(*model);
  }
}

TEST(OnnxExport, TakesTheLogitsOfAClassifier) {
  const auto model = Exported(CaseOf("lenet").program);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->inputs, ElementsAre("img"));
  EXPECT_THAT(model->outputs, ElementsAre("fc_2.out"));
  ::onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(model->bytes));
  EXPECT_EQ(proto.graph().node(proto.graph().node_size() - 1).op_type(), "Gemm");
}

TEST(OnnxExport, LeavesDropoutOut) {
  const auto model = Exported(CaseOf("bert_base").program);
  ASSERT_TRUE(model.ok()) << model.status();
  ::onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(model->bytes));
  std::set<std::string> types;
  for (const auto& node : proto.graph().node()) types.insert(node.op_type());
  EXPECT_FALSE(types.contains("Dropout"));
  EXPECT_TRUE(types.contains("Erf"));
}

TEST(OnnxExport, TakesTheOutputsThatAreNamed) {
  const auto model = Exported(CaseOf("lenet").program, {"fc_0.out", "conv_0.out"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->outputs, ElementsAre("fc_0.out", "conv_0.out"));
  const auto unknown = Exported(CaseOf("lenet").program, {"fc_0.uot"});
  EXPECT_THAT(ToString(unknown.status()), HasSubstr("did you mean \"fc_0.out\"?"));
}

TEST(OnnxExport, RefusesWhatHasNoFormByNameAndPlace) {
  graph::ProgramBuilder norm("norm", 3);
  const std::string x = norm.Relu(norm.Data("x", DType::kF32, {4}));
  norm.Layer("clip_by_norm", {{x}}, {});
  EXPECT_THAT(ToString(Exported(*norm.Finish()).status()),
              HasSubstr("operator 1, clip_by_norm of \"clip_by_norm_0.out\": the operator cannot "
                        "be exported to ONNX [TD1217]"));
  graph::ProgramBuilder pool("pool", 3);
  pool.Layer("sequence_pool",
             {{pool.Data("x", DType::kF32, {4, 2})}, {pool.Data("lengths", DType::kI64, {})}}, {});
  EXPECT_THAT(ToString(Exported(*pool.Finish()).status()),
              HasSubstr("sequences with input Lengths cannot be exported to ONNX [TD1217]"));
}

TEST(OnnxExport, RefusesAMissingParameter) {
  CpuDevice device;
  const OnnxCase& c = CaseOf("deepfm");
  trainer::TensorMap values = *ValuesOf(c.program, device);
  values.erase("embedding_0.w");
  const Status status = ExportModel(c.program, values, {}, {}).status();
  EXPECT_THAT(ToString(status), HasSubstr("operator 0, lookup_table of \"embedding_0.out\""));
  EXPECT_THAT(ToString(status), HasSubstr("the checkpoint has no variable \"embedding_0.w\""));
  values["embedding_0.w"] = *Tensor::Make({DType::kF32, {2, 2}}, device);
  EXPECT_EQ(ExportModel(c.program, values, {}, {}).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST(ImportedModel, AddsALossThatCanBeTrained) {
  const auto model = Exported(CaseOf("lenet").program);
  CpuDevice device;
  const auto import = ImportModel(model->bytes, "m.onnx", {}, device);
  ASSERT_TRUE(import.ok()) << import.status();
  const graph::Program& program = import->program;
  EXPECT_EQ(program.loss, "loss");
  EXPECT_THAT(program.metrics, ElementsAre("accuracy"));
  ASSERT_NE(program.FindVar("img"), nullptr);
  EXPECT_TRUE(program.FindVar("img")->batch_leading);
  EXPECT_EQ(program.VarsOf(graph::VarKind::kParam).size(), 10u);
  EXPECT_EQ(import->tensors.size(), 10u);
}

TEST(ImportedModel, LeavesASoftmaxAtTheEndToTheLoss) {
  const auto model = Exported(CaseOf("lenet").program);
  ::onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(model->bytes));
  ::onnx::GraphProto& graph = *proto.mutable_graph();
  ::onnx::NodeProto& softmax = *graph.add_node();
  softmax.set_op_type("Softmax");
  softmax.add_input("fc_2.out");
  softmax.add_output("probabilities");
  graph.mutable_output(0)->set_name("probabilities");
  CpuDevice device;
  const auto import = ImportModel(proto.SerializeAsString(), "m.onnx", {}, device);
  ASSERT_TRUE(import.ok()) << import.status();
  ASSERT_EQ(import->notes.size(), 1u);
  EXPECT_THAT(import->notes[0],
              HasSubstr("the last node, Softmax, is omitted, because the loss contains it"));
  for (const ops::Op& op : import->program.ops) EXPECT_NE(op.type, "softmax");
}

TEST(ImportedModel, RefusesWhatItDoesNotUnderstand) {
  EXPECT_THAT(
      Refused([](auto& m) { NodeOf(m, "Relu").set_op_type("Einsum"); }),
      HasSubstr("node 1, Einsum \"relu_0.out\": operator Einsum is not supported [TD1215]"));
  EXPECT_THAT(Refused([](auto& m) {
                auto* attr = NodeOf(m, "MaxPool").add_attribute();
                attr->set_name("dilations");
                attr->add_ints(2);
                attr->add_ints(2);
              }),
              HasSubstr("dilations other than 1 are not supported [TD7015]; hint: export the "
                        "pooling with dilation=1"));
  EXPECT_THAT(Refused([](auto& m) { NodeOf(m, "Relu").add_attribute()->set_name("alpha"); }),
              HasSubstr("attribute \"alpha\""));
  EXPECT_THAT(Refused([](auto& m) { m.mutable_opset_import(0)->set_version(99); }),
              HasSubstr("opset 99, but this program reads only opsets 7 to 21 [TD1218]"));
  EXPECT_THAT(Refused([](auto& m) { NodeOf(m, "Relu").set_domain("com.example"); }),
              HasSubstr("the operator domain \"com.example\" is not supported"));
  EXPECT_THAT(
      Refused([](auto& m) {
        m.mutable_graph()->mutable_initializer(0)->set_data_location(::onnx::TensorProto::EXTERNAL);
      }),
      HasSubstr("external data: location is \"\""));
}

TEST(ImportedModel, RefusesWhatIsWrong) {
  EXPECT_THAT(
      Refused([](auto& m) { m.mutable_graph()->mutable_initializer(0)->set_raw_data("x"); }),
      HasSubstr("needs 600 bytes, but the file has fewer [TD2108] (DATA_LOSS)"));
  EXPECT_THAT(
      Refused([](auto& m) { m.mutable_graph()->mutable_initializer(0)->set_dims(0, 1 << 30); }),
      HasSubstr("needs 107374182400 bytes, but the file has fewer [TD2108] (DATA_LOSS)"));
  EXPECT_THAT(
      Refused([](auto& m) { NodeOf(m, "Relu").set_input(0, "nobody"); }),
      HasSubstr(
          "input \"nobody\" is not the output of an earlier node and not an initializer [TD2108]"));
  EXPECT_THAT(Refused([](auto& m) { NodeOf(m, "Relu").clear_output(); }), HasSubstr("no output"));
  EXPECT_THAT(Refused([](auto& m) { m.clear_opset_import(); }), HasSubstr("not an ONNX model"));
  EXPECT_THAT(Refused([](auto&) {}, {.rename = {{"image", "img"}}, .output = ""}),
              HasSubstr("no input \"image\""));
  EXPECT_THAT(Refused([](auto&) {}, {.rename = {}, .output = "fc_9.out"}),
              HasSubstr("did you mean \"fc_2.out\"?"));
  CpuDevice device;
  EXPECT_EQ(ImportModel("\xff\xff", "m.onnx", {}, device).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace tandem::onnx
