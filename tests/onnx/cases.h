// Networks for export and import tests: small versions of the model zoo, and one network for each
// operator that the zoo does not use.
#pragma once

#include <string>
#include <vector>

#include "common/tensor/device.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::onnx {

struct OnnxCase {
  std::string name;
  Program program;  // with the loss, if it has one
};

std::vector<OnnxCase> OnnxCases();

// Models of PyTorch's exporter (exporter/README.md) of at most `bytes_max` bytes.
std::vector<std::string> ExporterFiles(size_t bytes_max);

// Values of all persistent variables, as tensors of `device`. Running statistics are not trivial.
StatusOr<trainer::TensorMap> ValuesOf(const Program& program, Device& device);

// Data for every input, drawn from `seed`: ids are in range.
StatusOr<trainer::TensorMap> InputsOf(const Program& program, uint64_t seed, Device& device);

// The values of `outputs` that `program` computes in its evaluation form from these values and
// inputs.
StatusOr<trainer::TensorMap> RunForTest(const Program& program, const trainer::TensorMap& values,
                                        const trainer::TensorMap& inputs,
                                        const std::vector<std::string>& outputs, Device& device);

}  // namespace tandem::onnx
