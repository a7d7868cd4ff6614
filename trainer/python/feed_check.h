// Checks the feed and the fetch list of a run against its program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"

namespace tandem::python {

// Binds `program` to the batch size of the fed shapes and returns the batch size. Returns 1 if no
// fed variable has a batch dimension. NOT_FOUND: a fed name is no data variable. INVALID_ARGUMENT:
// a data variable that operators read is not fed, a shape does not fit its variable, or two shapes
// have different batch sizes.
StatusOr<int64_t> BindFeed(graph::Program& program,
                           const std::map<std::string, std::vector<int64_t>>& feed);

// Checks that all fetched variables exist. NOT_FOUND: the program lacks a fetched variable.
Status CheckFetch(const graph::Program& program, const std::vector<std::string>& fetch);

// Checks that the variables that live across runs have values. FAILED_PRECONDITION: a parameter or
// state of the program has no value in the scope.
Status CheckInitialized(const graph::Program& program, const exec::Scope& scope);

}  // namespace tandem::python
