// The first values of a program's variables.
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

// Sets every parameter and state to its first value. The value is the tensor of the same name in
// the file that model.parameters names; else the program's initial value. Adds notes for the user
// to `notes`. NOT_FOUND: the file has no variable of the program. FAILED_PRECONDITION: a type or
// shape differs. UNIMPLEMENTED: a table with rows that pservers make.
Status SetFirstValues(const JobConfig& config, const SessionOptions& options,
                      const Program& program, Scope& scope, Device& host, std::string* notes);

}  // namespace tandem::trainer
