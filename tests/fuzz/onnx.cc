// Fuzz target: ONNX models, converted to programs.
#include "common/base/check.h"
#include "onnx/onnx.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/onnx/cases.h"
#include "tests/support/program_text.h"
#include "trainer/onnx/export/export.h"
#include "trainer/onnx/import.h"

namespace tandem {
namespace {

constexpr size_t kSeedBytesMax = 8192;  // conversion of larger models takes too long

bool Accepts(std::string_view input) {
  CpuDevice device;
  onnx::ImportOptions options;
  options.loss = onnx::ImportOptions::Loss::kNone;
  ::onnx::ModelProto model;
  model.ParseFromArray(input.data(), static_cast<int>(input.size()));
  if (model.graph().output_size() > 1) options.output = model.graph().output(0).name();
  const auto import = onnx::ImportModel(input, "m.onnx", options, device);
  CHECK(import.ok() || import.status().message().find("m.onnx") != std::string::npos)
      << import.status();
  if (import.ok()) CHECK(graph::Verify(import->program).ok());
  return import.ok();
}

void AddSeed(const graph::Program& program, std::vector<std::string>& seeds) {
  CpuDevice device;
  const auto model = onnx::ExportModel(program, *onnx::ValuesOf(program, device), {}, {});
  CHECK(model.ok()) << model.status();
  // Some operators can be exported but not imported, so only models that the target accepts become
  // seeds.
  if (model->bytes.size() <= kSeedBytesMax && Accepts(model->bytes)) seeds.push_back(model->bytes);
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  FuzzTarget target{
      {},
      {"Gemm", "Conv", "Reshape", "Shape", "Squeeze", "Gather", "Concat", "ConvTranspose",
       "MaxPool", "Resize", "PRelu", "Softplus", "GroupNormalization", "ceil_mode"},
      Accepts};
  target.seeds = onnx::ExporterFiles(kSeedBytesMax);
  CHECK_GE(target.seeds.size(), 6u);
  for (const onnx::OnnxCase& c : onnx::OnnxCases()) AddSeed(c.program, target.seeds);
  AddSeed(*ParseProgram(kProgramText), target.seeds);
  CHECK_GE(target.seeds.size(), 11u);
  return target;
}

}  // namespace tandem
