// Networks that go out as ONNX models and come back: those of the zoo, small, and one for each
// operator that they do not use.
#pragma once

#include <string>
#include <vector>

#include "common/tensor/device.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::onnx {

struct OnnxCase {
  std::string name;
  Program program;  // with loss, where it has one
};

std::vector<OnnxCase> OnnxCases();

// Models of PyTorch's exporter (exporter/README.md) of at most `bytes_max` bytes.
std::vector<std::string> ExporterFiles(size_t bytes_max);

// Values of all that programs keep, as tensors of `device`; running statistics are not trivial.
StatusOr<trainer::TensorMap> ValuesOf(const Program& program, Device& device);

// Data for every input, drawn from `seed`: ids are in range.
StatusOr<trainer::TensorMap> InputsOf(const Program& program, uint64_t seed, Device& device);

// What `program` gives for `outputs`, in its evaluation form, with these values and inputs.
StatusOr<trainer::TensorMap> RunForTest(const Program& program, const trainer::TensorMap& values,
                                        const trainer::TensorMap& inputs,
                                        const std::vector<std::string>& outputs, Device& device);

}  // namespace tandem::onnx
