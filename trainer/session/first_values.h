// Sets the initial values of the variables of a program.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/tensor/device.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/session/session_options.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Sets every parameter and state variable to its initial value: the tensor of the same name in the
// file model.parameters, or else the program's initial value. Adds notes for the user to `notes`.
// NOT_FOUND: no tensor of the file is a variable of the program. FAILED_PRECONDITION: a tensor and
// its variable differ in type or shape. UNIMPLEMENTED: the file has values of a table whose rows
// pservers create.
Status SetFirstValues(const JobConfig& config, const SessionOptions& options,
                      const graph::Program& program, exec::Scope& scope, Device& host,
                      std::string* notes);

}  // namespace tandem::trainer
