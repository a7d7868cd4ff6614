// A program while Python builds it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "kernels/graph/program.h"

namespace tandem::python {

// A program and its version. The GIL guards both: no method releases the GIL. Each plan uses a copy
// of the program.
class ProgramHandle {
 public:
  explicit ProgramHandle(graph::Program program) : program_(std::move(program)) {}

  const graph::Program& program() const { return program_; }
  // Returns a copy, which a caller may use without the GIL.
  graph::Program Copy() const { return program_; }
  // Returns the program for a change by the caller. Increases the version, so that the Executor of
  // Python makes new plans of the program.
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
