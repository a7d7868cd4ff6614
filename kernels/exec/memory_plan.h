// Where the temporaries of a program lie. Knows the program and the order in which it runs, and no
// device, so that tools can ask what a program will take.
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
  // An output takes the place of an input that nobody needs any more, where the operator allows it
  // (OpDef::inplace).
  bool inplace = false;
  std::set<std::string> apart = {};  // operators that do not allow it after all, on this device
  // Memory serves the next as soon as its variable is dead. false: when dead variables are freed.
  bool reuse = true;
  // Without reuse: dead variables are freed together when they hold at least so many bytes; below
  // 0: at the end of the run.
  int64_t eager_delete_bytes = 0;
};

// A communication: started at operator `start`, waited for before operator `wait` (the number of
// operators: at the end).
struct Flight {
  int start, wait;
};

// In program order. A communication is waited for before the first later operator that touches what
// it writes, or writes what it reads.
std::vector<Flight> FindCommIntervals(const Program& program);

struct MemoryPlan {
  std::unordered_map<std::string, size_t> offsets;  // of every temporary
  size_t bytes = 0;                                 // of the arena
  size_t bytes_min = 0;  // most that is alive at once: no plan of this program takes less
  size_t bytes_sum = 0;  // of all temporaries, each with memory of its own
  std::vector<std::pair<std::string, std::string>> inplace;  // (output, the input it replaced)
  const char* order = "";                                    // how it was packed (Packing::order)
};

// Plans the memory of every kTemp that some operator touches. `fetch`: variables that keep their
// value after a run; NOT_FOUND when there is no such variable.
// Memory is kept for a variable from its first write to its last read; operators that use the shape
// of an input alone keep none.
StatusOr<MemoryPlan> PlanMemory(const Program& program, const std::vector<Flight>& flights,
                                const std::vector<std::string>& fetch,
                                const MemoryOptions& options);

// The most that is alive at once of these temporaries alone, without sharing of memory in place.
size_t LargestLive(const Program& program, const std::vector<Flight>& flights,
                   const std::set<std::string>& temporaries);

// "61.2 MB for temporaries (at least 60.1 MB live at once; 230.0 MB without reuse), 34 in place".
std::string ToText(const MemoryPlan& plan);

}  // namespace tandem
