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
  graph::Program program;  // forward program, with the loss if the network has one
};

std::vector<OnnxCase> OnnxCases();

// Returns the paths of those models of PyTorch's exporter (exporter/README.md) that have at most
// `bytes_max` bytes.
std::vector<std::string> ExporterFiles(size_t bytes_max);

// Returns values for all persistent variables, as tensors of `device`. Running means differ from 0
// and running variances from 1, their initial values.
StatusOr<trainer::TensorMap> ValuesOf(const graph::Program& program, Device& device);

// Returns random data for every input. `seed` determines the data. Ids are valid row numbers.
StatusOr<trainer::TensorMap> InputsOf(const graph::Program& program, uint64_t seed, Device& device);

// Runs the evaluation form of `program` with these values and inputs. Returns the values of
// `outputs`.
StatusOr<trainer::TensorMap> RunForTest(const graph::Program& program,
                                        const trainer::TensorMap& values,
                                        const trainer::TensorMap& inputs,
                                        const std::vector<std::string>& outputs, Device& device);

}  // namespace tandem::onnx
