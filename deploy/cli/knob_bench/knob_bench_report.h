// What `tandem bench knobs` found: for the terminal, as JSON, and as a page.
#pragma once

#include <string>
#include <vector>

#include "deploy/cli/knob_bench/knob_bench_run.h"

namespace tandem::deploy {

struct KnobReport {
  std::vector<KnobResult> results;
  int rounds = 0;
  std::string date;     // UTC, "2026-11-21 13:00"
  std::string machine;  // "2 cores, Intel ..., 8 GB"
  std::string version;  // of this program
  std::string commit;   // "": not said
};

// Cores, processor and memory of this machine.
std::string DescribeMachine();

// A table with a line for each knob; problems in red where `color_fd` shows colours.
std::string KnobBenchText(const KnobReport& report, int color_fd);
// One line: {"date", "machine", "version", "commit", "rounds", "knobs": [{"knob",
// "network", "steps", "launch", "with", "also", "default", "changed", "counter": {"name",
// "default", "changed"}, "time_ratio": {"median", "min", "max"}, "step_seconds", "peak_bytes":
// {...}, "losses":
// {"same_bits", "difference", "tolerance"}, "problem"}]}; tolerance null: not comparable.
std::string KnobBenchJson(const KnobReport& report);
// A page, with the knobs that are not measured and why.
std::string KnobBenchMarkdown(const KnobReport& report);

}  // namespace tandem::deploy
