// Checks a run's feed and fetch list against its program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"

namespace tandem::python {

// Binds `program` to the batch of the fed shapes and returns the batch; 1: no fed variable has
// one. NOT_FOUND: a fed name is no data variable. INVALID_ARGUMENT: a data variable that operators
// read is not fed, a shape does not fit, or two shapes have different batches.
StatusOr<int64_t> BindFeed(graph::Program& program,
                           const std::map<std::string, std::vector<int64_t>>& feed);

// NOT_FOUND: the program lacks a fetched variable.
Status CheckFetch(const graph::Program& program, const std::vector<std::string>& fetch);

// FAILED_PRECONDITION: a parameter or state of the program has no value in the scope.
Status CheckInitialized(const graph::Program& program, const exec::Scope& scope);

}  // namespace tandem::python
