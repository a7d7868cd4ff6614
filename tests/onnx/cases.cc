#include "tests/onnx/cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "common/base/check.h"
#include "kernels/exec/executor.h"
#include "kernels/graph/builder.h"
#include "kernels/graph/for_test.h"
#include "trainer/models/models.h"

namespace tandem::onnx {
namespace {

constexpr int64_t kBatch = 3;
using Ints = std::vector<int64_t>;
using Args = std::map<std::string, std::string>;

OnnxCase FromZoo(const std::string& name, const Args& args) {
  auto program = trainer::BuildModel(name, args, kBatch);
  CHECK(program.ok()) << name << ": " << program.status();
  return {name, *std::move(program)};
}

OnnxCase Written(const std::string& name, const std::function<void(graph::ProgramBuilder&)>& body) {
  graph::ProgramBuilder builder(name, kBatch);
  body(builder);
  auto program = builder.Finish();
  CHECK(program.ok()) << name << ": " << program.status();
  return {name, *std::move(program)};
}

void Images(graph::ProgramBuilder& b) {
  const std::string x = b.Data("x", DType::kF32, {4, 9, 7});
  const std::string filter = b.Param("filter", {4, 3, 3, 3}, {graph::Init::kMsraNormal});
  std::string y =
      b.Layer("conv2d_transpose", {{x}, {filter}},
              {{"strides", Ints{2, 1}}, {"paddings", Ints{1, 0}}, {"output_padding", Ints{1, 0}}});
  y = b.Pool2d(b.BatchNorm(y), {.max = false, .kernel = 3, .stride = 2, .padding = 1});
  y = b.Layer("pool2d", {{y}},
              {{"pooling_type", std::string("avg")},
               {"ksize", Ints{2, 3}},
               {"paddings", Ints{1, 1}},
               {"exclusive", false}});
  y = b.Conv2d(y, {.channels = 6, .kernel = 3, .padding = 1, .bias = false, .groups = 3});
  b.Pool2d(y, {.max = true, .global = true});
}

void Numbers(graph::ProgramBuilder& b) {
  const std::string x = b.Data("x", DType::kF32, {4, 6});
  const std::string row = b.Param("row", {6}, {graph::Init::kUniform, 1.0f, 2.0f});
  const std::string column = b.Param("column", {4}, {graph::Init::kUniform, 1.0f, 2.0f});
  std::string y = b.Layer("elementwise_div", {{x}, {column}}, {{"axis", int64_t{1}}});
  y = b.Layer("elementwise_sub", {{y}, {row}}, {});
  y = b.Layer("elementwise_max", {{y}, {b.Layer("tanh", {{x}}, {})}}, {});
  y = b.Layer("scale", {{y}}, {{"scale", 1.5}, {"bias", -0.25}});
  y = b.Layer("clip", {{y}}, {{"min", -1.0}, {"max", 1.5}});
  const std::string gelu = b.Layer("gelu", {{y}}, {{"approximate", true}});
  y = b.Layer("sum", {{y, gelu, b.Layer("sigmoid", {{x}}, {})}}, {});
  y = b.Layer("matmul", {{y}, {x}}, {{"trans_x", true}, {"alpha", 0.5}});
  b.Layer("cast", {{b.Layer("cast", {{y}}, {{"out_dtype", std::string("i32")}})}},
          {{"out_dtype", std::string("f32")}});
  b.Layer("softmax", {{y}}, {});
}

void Shapes(graph::ProgramBuilder& b) {
  const std::string x = b.Data("x", DType::kF32, {4, 6});
  const std::string cut = b.Layer(
      "slice", {{x}}, {{"axes", Ints{1, 2}}, {"starts", Ints{1, -5}}, {"ends", Ints{3, 100}}});
  const std::vector<std::string> parts = b.Split(b.Transpose(x, {0, 2, 1}), 1, 3);
  const std::string both = b.Layer("concat", {{parts[2], parts[0]}}, {{"axis", int64_t{-1}}});
  b.Layer("reduce_sum", {{both}}, {{"dim", Ints{1}}});
  b.Layer("reduce_max", {{cut}}, {{"dim", Ints{-1}}, {"keep_dim", true}});
  b.Layer("reduce_mean", {{parts[1]}}, {{"dim", Ints{1, 2}}});
  b.Layer("mean", {{x}}, {});
  b.Layer("reduce_sum", {{x}}, {});
}

void Rows(graph::ProgramBuilder& b) {
  const std::string ids = b.Data("ids", DType::kI64, {5});
  const std::string one = b.Data("one", DType::kI64, {1});
  const std::string x = b.Embedding(ids, {.rows = 11, .dim = 4, .padding_idx = 2});
  for (const char* type : {"sum", "average", "sqrt", "max", "first", "last"}) {
    b.SequencePool(x, type);
  }
  const std::string table = b.Param("table", {7, 3}, {graph::Init::kNormal, 0.0f, 1.0f});
  b.Layer("lookup_table", {{one}, {table}}, {});
  const std::string scale = b.Param("scale", {20}, {graph::Init::kUniform, 1.0f, 2.0f});
  b.Layer("layer_norm", {{x}, {scale}, {}}, {{"begin_norm_axis", int64_t{1}}});
}

// Parameters that several operators need in different forms: transposed and not transposed, or with
// different rows set to zero.
void Forms(graph::ProgramBuilder& b) {
  const std::string ids = b.Data("ids", DType::kI64, {5});
  const std::string weight = b.Param("weight", {4, 4}, {graph::Init::kNormal, 0.0f, 1.0f});
  const std::string y = b.Layer("fc", {{b.Data("x", DType::kF32, {4})}, {weight}, {}}, {});
  b.Layer("matmul", {{y}, {weight}}, {});
  const std::string table = b.Param("table", {7, 3}, {graph::Init::kNormal, 0.0f, 1.0f});
  for (const int64_t row : {2, 4, -1}) {
    b.Layer("lookup_table", {{ids}, {table}}, {{"padding_idx", row}});
  }
}

float Draw(std::mt19937_64& random) { return std::normal_distribution<float>()(random); }

// Returns the number of rows of the smallest table in which the program looks up `ids`, or 2 if
// there is no such table.
int64_t RowsOf(const graph::Program& program, const std::string& ids) {
  int64_t rows = 2;
  bool found = false;
  for (const ops::Op& op : program.ops) {
    if (op.type != "lookup_table" || op.inputs[0][0] != ids) continue;
    const int64_t here = program.FindVar(op.inputs[1][0])->desc.shape[0];
    rows = found ? std::min(rows, here) : here;
    found = true;
  }
  return rows;
}

}  // namespace

std::vector<OnnxCase> OnnxCases() {
  const Args click = {{"rows", "40"}, {"fields", "6"}, {"dim", "4"}, {"hidden", "8,8"}};
  const Args words = {
      {"layers", "2"}, {"width", "16"}, {"heads", "2"}, {"vocabulary", "19"}, {"sequence", "5"}};
  Args masked = words;
  masked.emplace("predicted", "2");
  return {
      FromZoo("lenet", {}),
      FromZoo("mlp", {}),
      FromZoo("resnet18", {{"image", "3,32,32"}, {"stem", "3"}}),
      FromZoo("mobilenet_v1", {{"image", "3,32,32"}, {"width", "25"}, {"stem", "1"}}),
      FromZoo("residual_cnn", {}),
      FromZoo("wide_deep", click),
      FromZoo("deepfm", click),
      FromZoo("transformer_lm", words),
      FromZoo("bert_base", masked),
      Written("images", Images),
      Written("numbers", Numbers),
      Written("shapes", Shapes),
      Written("rows", Rows),
      Written("forms", Forms),
  };
}

std::vector<std::string> ExporterFiles(size_t bytes_max) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(TANDEM_EXPORTER_FILES)) {
    if (entry.path().extension() == ".onnx") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> models;
  for (const std::filesystem::path& path : paths) {
    if (std::filesystem::file_size(path) > bytes_max) continue;
    std::ifstream in(path, std::ios::binary);
    models.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return models;
}

StatusOr<trainer::TensorMap> ValuesOf(const graph::Program& program, Device& device) {
  exec::Scope scope(device);
  TD_RETURN_IF_ERROR(exec::Initialize(program, /*seed=*/1, scope));
  trainer::TensorMap values;
  std::mt19937_64 random(5);
  for (const graph::Var& var : program.vars()) {
    if (var.kind != graph::VarKind::kParam && var.kind != graph::VarKind::kState) continue;
    const Tensor& tensor = values[var.name] = *scope.Find(var.name);
    if (!var.name.starts_with("batch_norm")) continue;
    for (float& v : tensor.span<float>()) v = 0.5f + std::abs(Draw(random));
  }
  return values;
}

StatusOr<trainer::TensorMap> InputsOf(const graph::Program& program, uint64_t seed,
                                      Device& device) {
  std::mt19937_64 random(seed);
  trainer::TensorMap inputs;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kData)) {
    TD_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::Make(var->desc, device));
    if (var->desc.dtype == DType::kF32) {
      for (float& v : tensor.span<float>()) v = Draw(random);
    } else {
      const auto rows = static_cast<uint64_t>(RowsOf(program, var->name));
      for (int64_t& v : tensor.span<int64_t>()) v = static_cast<int64_t>(random() % rows);
    }
    inputs[var->name] = tensor;
  }
  return inputs;
}

StatusOr<trainer::TensorMap> RunForTest(const graph::Program& training,
                                        const trainer::TensorMap& values,
                                        const trainer::TensorMap& inputs,
                                        const std::vector<std::string>& outputs, Device& device) {
  const graph::Program program = graph::ForTest(training);
  exec::Scope scope(device);
  TD_RETURN_IF_ERROR(exec::Initialize(program, /*seed=*/2, scope));
  exec::PlanOptions options;
  options.threads = 1;
  options.fetch = outputs;
  TD_ASSIGN_OR_RETURN(const auto plan,
                      exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, options));
  for (const trainer::TensorMap* map : {&values, &inputs}) {
    for (const auto& [name, tensor] : *map) {
      TD_ASSIGN_OR_RETURN(const Tensor to, plan->Get(name));
      if (to.desc() != tensor.desc()) return InvalidArgument("\"%s\" is another", name);
      std::memcpy(to.data(), tensor.data(), tensor.bytes());
    }
  }
  TD_RETURN_IF_ERROR(exec::Executor(*plan).Run());
  trainer::TensorMap results;
  for (const std::string& name : outputs) {
    TD_ASSIGN_OR_RETURN(const Tensor from, plan->Get(name));
    TD_ASSIGN_OR_RETURN(const Tensor to, Tensor::Make(from.desc(), device));
    std::memcpy(to.data(), from.data(), from.bytes());
    results[name] = to;
  }
  return results;
}

}  // namespace tandem::onnx
