// Plans the memory of a program's temporaries. The planner needs only the program and the order of
// its operators, no device, so that tools can predict memory use.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "kernels/exec/packing.h"
#include "kernels/graph/program.h"

namespace tandem::exec {

struct MemoryOptions {
  // Lets an output use the memory of an input that no later operator reads, if the operator allows
  // it (OpDef::inplace).
  bool inplace = false;
  // Types of operators whose outputs must not use the memory of inputs on the plan's device.
  std::set<std::string> apart = {};
  // If true, the memory of a variable is reused as soon as no later operator reads the variable. If
  // false, memory is reused only after dead variables are freed.
  bool reuse = true;
  // Used if `reuse` is false: number of bytes of dead variables at which all dead variables are
  // freed. Below 0: dead variables are freed at the end of the run.
  int64_t eager_delete_bytes = 0;
};

// A communication that starts at operator `start`. The executor waits for the communication before
// operator `wait`. If `wait` is the number of operators, the executor waits at the end of the run.
struct Flight {
  int start, wait;
};

// Returns the interval of each communication, in program order. `wait` is the first later operator
// that conflicts with the communication. An operator conflicts if it reads or writes an output of
// the communication, or writes an input of the communication.
std::vector<Flight> FindCommIntervals(const graph::Program& program);

struct MemoryPlan {
  // By name of the temporary: its offset in the arena in bytes.
  std::unordered_map<std::string, size_t> offsets;
  size_t bytes = 0;      // size of the arena in bytes
  size_t bytes_min = 0;  // maximum bytes of temporaries that are live together, <= bytes
  size_t bytes_sum = 0;  // sum of the bytes of all temporaries, without sharing
  // pairs: an output, and the input whose memory it uses
  std::vector<std::pair<std::string, std::string>> inplace;
  const char* order = "";  // name of the order in which blocks were packed (Packing::order)
};

// Plans the memory of every kTemp that an operator reads or writes. `fetch`: variables that keep
// their value after a run. NOT_FOUND: a variable of `fetch` does not exist. A variable has memory
// from its first write to its last read. An operator that uses only the shape of a variable does
// not count as a reader.
StatusOr<MemoryPlan> PlanMemory(const graph::Program& program, const std::vector<Flight>& flights,
                                const std::vector<std::string>& fetch,
                                const MemoryOptions& options);

// Returns the largest number of bytes that the variables of `temporaries` need at the same time.
// Assumes that no operator writes an output to the memory of an input.
size_t LargestLive(const graph::Program& program, const std::vector<Flight>& flights,
                   const std::set<std::string>& temporaries);

// Returns "61.2 MB for temporaries (at least 60.1 MB live at once; 230.0 MB without reuse), ...".
std::string ToText(const MemoryPlan& plan);

}  // namespace tandem::exec
