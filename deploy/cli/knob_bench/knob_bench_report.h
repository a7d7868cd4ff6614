// Prints the results of `tandem bench knobs` as text, as JSON and as a page.
#pragma once

#include <string>
#include <vector>

#include "deploy/cli/knob_bench/knob_bench_run.h"

namespace tandem::deploy {

struct KnobReport {
  std::vector<KnobResult> results;
  int rounds = 0;
  std::string date;     // date in UTC, such as "2026-11-21 13:00"
  std::string machine;  // description of the machine, such as "2 cores, Intel ..., 8 GB"
  std::string version;  // version of the program `tandem`
  std::string commit;   // commit of the source; "": unknown
};

// Returns the number of cores, the processor and the memory of this machine as text.
std::string DescribeMachine();

// Returns a table with one line per knob. Problems are red if `color_fd` supports colours.
std::string KnobBenchText(const KnobReport& report, int color_fd);
// Returns one line of JSON: {"date", "machine", "version", "commit", "rounds", "knobs": [{"knob",
// "network", "steps", "launch", "with", "also", "default", "changed", "counter": {"name",
// "default", "changed"}, "time_ratio": {"median", "min", "max"}, "step_seconds", "peak_bytes":
// {...}, "losses": {"same_bits", "difference", "tolerance"}, "problem"}]}. A tolerance of null
// means that the losses are not comparable.
std::string KnobBenchJson(const KnobReport& report);
// Returns a page in Markdown. The page also lists the knobs that are not measured, with the
// reasons.
std::string KnobBenchMarkdown(const KnobReport& report);

}  // namespace tandem::deploy
