// ONNX models that become programs.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/check.h"
#include "onnx/onnx.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/onnx/cases.h"
#include "tests/support/program_text.h"
#include "trainer/onnx/export.h"
#include "trainer/onnx/import.h"

namespace tandem {
namespace {

constexpr size_t kSeedBytesMax = 8192;  // larger models take too long

bool Accepts(std::string_view input) {
  CpuDevice device;
  OnnxImportOptions options;
  options.loss = OnnxImportOptions::Loss::kNone;
  onnx::ModelProto model;
  model.ParseFromArray(input.data(), static_cast<int>(input.size()));
  if (model.graph().output_size() > 1) options.output = model.graph().output(0).name();
  const auto import = ImportOnnx(input, "m.onnx", options, device);
  CHECK(import.ok() || import.status().message().find("m.onnx") != std::string::npos)
      << import.status();
  if (import.ok()) CHECK(Verify(import->program).ok());
  return import.ok();
}

void AddSeed(const Program& program, std::vector<std::string>& seeds) {
  CpuDevice device;
  const auto model = ExportOnnx(program, *ValuesOf(program, device), {}, {});
  CHECK(model.ok()) << model.status();
  // Some operators go out and do not come back.
  if (model->bytes.size() <= kSeedBytesMax && Accepts(model->bytes)) seeds.push_back(model->bytes);
}

// Files of PyTorch's exporter (tests/onnx/exporter/README.md).
void AddExported(std::vector<std::string>& seeds) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(TANDEM_EXPORTER_FILES)) {
    if (entry.path().extension() == ".onnx") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    if (std::filesystem::file_size(path) > kSeedBytesMax) continue;
    std::ifstream in(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  CHECK_GE(seeds.size(), 6u);
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  FuzzTarget target{
      {},
      {"Gemm", "Conv", "Reshape", "Shape", "Squeeze", "Gather", "Concat", "ConvTranspose",
       "MaxPool", "Resize", "PRelu", "Softplus", "GroupNormalization", "ceil_mode"},
      Accepts};
  AddExported(target.seeds);
  for (const OnnxCase& c : OnnxCases()) AddSeed(c.program, target.seeds);
  AddSeed(*ParseProgram(kProgramText), target.seeds);
  CHECK_GE(target.seeds.size(), 11u);
  return target;
}

}  // namespace tandem
