// Writes DIR/x.onnx and DIR/x.safetensors for every case x (cases.h). The safetensors file contains
// the inputs as "in.NAME" and the results of Tandem as "out.NAME". tests/onnx/engines_test.py reads
// both files.
#include <fstream>
#include <iostream>

#include "tests/onnx/cases.h"
#include "trainer/onnx/export/export.h"

namespace tandem::onnx {
namespace {

Status Write(const OnnxCase& c, const std::string& dir) {
  CpuDevice device;
  TD_ASSIGN_OR_RETURN(const trainer::TensorMap values, ValuesOf(c.program, device));
  TD_ASSIGN_OR_RETURN(const trainer::TensorMap inputs, InputsOf(c.program, /*seed=*/7, device));
  TD_ASSIGN_OR_RETURN(const ExportedModel model,
                      ExportModel(c.program, values, {}, {{"case", c.name}}));
  TD_ASSIGN_OR_RETURN(const trainer::TensorMap results,
                      RunForTest(c.program, values, inputs, model.outputs, device));
  std::ofstream(dir + "/" + c.name + ".onnx", std::ios::binary) << model.bytes;
  trainer::TensorMap pairs;
  for (const std::string& name : model.inputs) pairs["in." + name] = inputs.at(name);
  for (const auto& [name, tensor] : results) pairs["out." + name] = tensor;
  return trainer::WriteSafetensors(dir + "/" + c.name + ".safetensors", pairs, {});
}

int WriteAll(const std::string& dir) {
  int failed = 0;
  for (const OnnxCase& c : OnnxCases()) {
    const Status status = Write(c, dir);
    if (status.ok()) continue;
    std::cerr << c.name << ": " << status << "\n";
    ++failed;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tandem::onnx

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: onnx_export_cases DIR\n";
    return 2;
  }
  return tandem::onnx::WriteAll(argv[1]);
}
