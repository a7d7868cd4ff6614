// A program that Python builds.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "kernels/graph/program.h"

namespace tandem::python {

// A program and its version. The GIL guards it: no method releases the GIL, and plans copy it.
class ProgramHandle {
 public:
  explicit ProgramHandle(graph::Program program) : program_(std::move(program)) {}

  const graph::Program& program() const { return program_; }
  // The caller changes the program: the version increases, so plans of it are made again.
  graph::Program& Change() {
    ++version_;
    return program_;
  }
  int64_t version() const { return version_; }

 private:
  graph::Program program_;
  int64_t version_ = 0;
};

}  // namespace tandem::python
