// Plans the memory of a program's temporaries. It needs only the program and its order, not a
// device, so that tools can predict memory use.
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

namespace tandem {

struct MemoryOptions {
  // An output uses the memory of an input that is dead afterwards, if the operator allows it
  // (OpDef::inplace).
  bool inplace = false;
  std::set<std::string> apart = {};  // operators that do not allow this on the present device
  // true: memory is reused as soon as its variable is dead. false: memory is reused only after dead
  // variables are freed.
  bool reuse = true;
  // Used without `reuse`: dead variables are freed together when they hold at least this many
  // bytes. Below 0: at the end of the run.
  int64_t eager_delete_bytes = 0;
};

// A communication. It starts at operator `start`. The wait for it comes before operator `wait` (the
// number of operators: at the end).
struct Flight {
  int start, wait;
};

// Returns the communications in program order. The wait comes before the first later operator that
// touches what the communication writes, or writes what it reads.
std::vector<Flight> FindCommIntervals(const Program& program);

struct MemoryPlan {
  std::unordered_map<std::string, size_t> offsets;  // of each temporary
  size_t bytes = 0;                                 // size of the arena
  size_t bytes_min = 0;                             // most bytes alive at once: no plan needs less
  size_t bytes_sum = 0;                             // sum over all temporaries, without sharing
  std::vector<std::pair<std::string, std::string>> inplace;  // (output, the input it replaced)
  const char* order = "";                                    // see Packing::order
};

// Plans the memory of every kTemp that an operator touches. `fetch`: variables that keep their
// value after a run. NOT_FOUND: one of them does not exist. A variable has memory from its first
// write to its last read. An operator that uses only the shape of an input keeps no memory for it.
StatusOr<MemoryPlan> PlanMemory(const Program& program, const std::vector<Flight>& flights,
                                const std::vector<std::string>& fetch,
                                const MemoryOptions& options);

// Returns the most bytes of these temporaries alive at once, without in-place sharing.
size_t LargestLive(const Program& program, const std::vector<Flight>& flights,
                   const std::set<std::string>& temporaries);

// Returns "61.2 MB for temporaries (at least 60.1 MB live at once; 230.0 MB without reuse), 34 in
// place".
std::string ToText(const MemoryPlan& plan);

}  // namespace tandem
