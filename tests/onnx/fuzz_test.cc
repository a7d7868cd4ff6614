// Fuzz test: the import must accept a mutated model, or reject the model with a message. The import
// must not crash or hang. The test Bytes mutates the bytes of valid models, the test Fields mutates
// their fields, each TANDEM_FUZZ_RUNS times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "onnx/onnx.pb.h"
#include "tests/onnx/cases.h"
#include "tests/support/text_fuzz_util.h"
#include "trainer/onnx/export/export.h"
#include "trainer/onnx/import.h"

namespace tandem::onnx {
namespace {

using Random = std::mt19937_64;

std::vector<std::string> Models() {
  std::vector<std::string> models = ExporterFiles(32 << 10);
  CHECK_GE(models.size(), 10u);
  CpuDevice device;
  for (const OnnxCase& c : OnnxCases()) {
    // Skips these models, because they are too slow.
    if (c.name == "resnet18" || c.name == "mobilenet_v1" || c.name == "mlp") continue;
    const auto model = ExportModel(c.program, *ValuesOf(c.program, device), {}, {});
    CHECK(model.ok()) << c.name << ": " << model.status();
    models.push_back(model->bytes);
  }
  return models;
}

// Checks that the import of `bytes` gives a program that is valid for another batch size too, or an
// error that names the file. Increments *made if the import gives a program.
void Check(const std::string& bytes, int64_t* made) {
  CpuDevice device;
  ImportOptions options;
  options.loss = ImportOptions::Loss::kNone;
  const auto import = ImportModel(bytes, "m.onnx", options, device);
  if (import.ok()) {
    ++*made;
    graph::Program program = import->program;
    ASSERT_TRUE(graph::Verify(program).ok());
    const Status other = graph::BindBatch(program, 5);
    ASSERT_TRUE(other.ok()) << other << "\n" << graph::Dump(import->program);
  } else {
    ASSERT_THAT(import.status().message(), testing::HasSubstr("m.onnx"));
  }
}

int64_t OddNumber(Random& random) {
  constexpr int64_t kOdd[] = {0, 1, -1, 2, 3, 7, -7, 1 << 20, INT32_MIN, INT64_MAX, INT64_MIN};
  return kOdd[random() % std::size(kOdd)];
}

template <typename List>
auto* AnyOf(List* list, Random& random) {
  return list->empty()
             ? nullptr
             : list->Mutable(static_cast<int>(random() % static_cast<uint64_t>(list->size())));
}

void MutateAttribute(::onnx::AttributeProto* attr, Random& random) {
  if (attr == nullptr) return;
  attr->set_i(OddNumber(random));
  attr->set_f(static_cast<float>(OddNumber(random)));
  if (attr->ints_size() > 0 && random() % 2 == 0) {
    attr->set_ints(static_cast<int>(random() % static_cast<uint64_t>(attr->ints_size())),
                   OddNumber(random));
  } else {
    attr->add_ints(OddNumber(random));
  }
}

// Makes the floats of the tensor numbers of type DOUBLE.
void Widen(::onnx::TensorProto* tensor) {
  if (tensor->data_type() != ::onnx::TensorProto::FLOAT) return;
  std::vector<float> floats(tensor->float_data().begin(), tensor->float_data().end());
  if (tensor->raw_data().size() >= sizeof(float)) {
    floats.resize(tensor->raw_data().size() / sizeof(float));
    std::memcpy(floats.data(), tensor->raw_data().data(), floats.size() * sizeof(float));
  }
  tensor->clear_raw_data();
  tensor->clear_float_data();
  tensor->set_data_type(::onnx::TensorProto::DOUBLE);
  for (const float number : floats) tensor->add_double_data(number);
}

void MutateTensor(::onnx::TensorProto* tensor, Random& random) {
  if (tensor == nullptr) return;
  switch (random() % 5) {
    case 0:
      if (tensor->dims_size() > 0) tensor->set_dims(0, OddNumber(random));
      break;
    case 1:
      tensor->add_dims(random() % 2 == 0 ? 1 : OddNumber(random));
      break;
    case 2:
      tensor->set_data_type(static_cast<int>(random() % 20));
      break;
    case 3:
      Widen(tensor);
      break;
    default: {
      std::string& raw = *tensor->mutable_raw_data();
      if (!raw.empty()) raw[random() % raw.size()] = static_cast<char>(random());
      break;
    }
  }
}

constexpr const char* kTypes[] = {"Shape",       "Squeeze",
                                  "Unsqueeze",   "Concat",
                                  "Gather",      "Cast",
                                  "Clip",        "Dropout",
                                  "Identity",    "Flatten",
                                  "MatMul",      "Slice",
                                  "Split",       "LayerNormalization",
                                  "AveragePool", "ConvTranspose",
                                  "Elu",         "GroupNormalization",
                                  "Greater",     "InstanceNormalization",
                                  "MaxPool",     "PRelu",
                                  "Resize",      "Softplus",
                                  "Expand",      "CastLike",
                                  "Sqrt",        "Mul",
                                  "Pad",         "Tile"};

void MutateModel(::onnx::ModelProto* model, Random& random) {
  ::onnx::GraphProto& graph = *model->mutable_graph();
  ::onnx::NodeProto* node = AnyOf(graph.mutable_node(), random);
  const ::onnx::NodeProto other = *AnyOf(graph.mutable_node(), random);
  switch (random() % 8) {
    case 0:
      node->set_op_type(random() % 2 == 0 ? other.op_type() : kTypes[random() % std::size(kTypes)]);
      break;
    case 1:
      if (other.input_size() > 0) node->add_input(other.input(0));
      break;
    case 2:
      if (node->input_size() > 0 && other.input_size() > 0)
        node->set_input(0, other.input(other.input_size() - 1));
      break;
    case 3:
      node->clear_input();
      break;
    case 4:
      MutateAttribute(AnyOf(node->mutable_attribute(), random), random);
      break;
    case 5:
      MutateTensor(AnyOf(graph.mutable_initializer(), random), random);
      break;
    case 6:
      if (auto* input = AnyOf(graph.mutable_input(), random)) {
        auto* dims = input->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim();
        if (auto* dim = AnyOf(dims, random)) dim->set_dim_value(OddNumber(random));
      }
      break;
    default:
      model->mutable_opset_import(0)->set_version(static_cast<int64_t>(random() % 23));
      break;
  }
}

TEST(OnnxFuzz, Bytes) {
  const std::vector<std::string> models = Models();
  const FuzzRuns fuzz = FuzzRunsOf(300);
  Random random(fuzz.seed);
  constexpr const char* kPieces[] = {"\x08", "\x12\x04", "\xff\xff\xff\xff\x0f", "\x3a", "Gemm"};
  int64_t made = 0;
  for (int64_t i = 0; i < fuzz.runs; ++i) {
    SCOPED_TRACE(absl::StrFormat("run %d", i));
    ASSERT_NO_FATAL_FAILURE(
        Check(MutateText(models[random() % models.size()], kPieces, random), &made));
  }
  std::printf("%lld of them are programs\n", static_cast<long long>(made));
}

TEST(OnnxFuzz, Fields) {
  const std::vector<std::string> models = Models();
  const FuzzRuns fuzz = FuzzRunsOf(1000);
  Random random(fuzz.seed);
  int64_t made = 0;
  for (int64_t i = 0; i < fuzz.runs; ++i) {
    SCOPED_TRACE(absl::StrFormat("run %d", i));
    ::onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(models[random() % models.size()]));
    for (uint64_t edits = 1 + random() % 3; edits-- > 0;) MutateModel(&model, random);
    ASSERT_NO_FATAL_FAILURE(Check(model.SerializeAsString(), &made));
  }
  EXPECT_GT(made, fuzz.runs / 20);
  EXPECT_LT(made, fuzz.runs);
}

}  // namespace
}  // namespace tandem::onnx
