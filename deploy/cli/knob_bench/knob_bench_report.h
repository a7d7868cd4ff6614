// The results of `tandem bench knobs`: as text, as JSON and as a page.
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
  std::string version;  // version of this program
  std::string commit;   // "": unknown
};

// Cores, processor and memory of this machine.
std::string DescribeMachine();

// A table with one line per knob; problems are red if `color_fd` supports colours.
std::string KnobBenchText(const KnobReport& report, int color_fd);
// One line: {"date", "machine", "version", "commit", "rounds", "knobs": [{"knob",
// "network", "steps", "launch", "with", "also", "default", "changed", "counter": {"name",
// "default", "changed"}, "time_ratio": {"median", "min", "max"}, "step_seconds", "peak_bytes":
// {...}, "losses":
// {"same_bits", "difference", "tolerance"}, "problem"}]}; tolerance null: not comparable.
std::string KnobBenchJson(const KnobReport& report);
// A page, which also lists the knobs that are not measured, with reasons.
std::string KnobBenchMarkdown(const KnobReport& report);

}  // namespace tandem::deploy
