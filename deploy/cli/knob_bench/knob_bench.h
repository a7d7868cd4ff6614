// The measurement of each knob by `tandem bench knobs`; the table is in knob_bench_table.cc. A test
// compares it with the list of built knobs (common/strategy/knobs.h): each knob is in one of the
// two lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

// Tolerances of losses (KnobResult::LossDifference).
inline constexpr double kSameBits = 0;
inline constexpr double kOtherOrder = 1e-3;     // sums in another order
inline constexpr double kHalfPrecision = 5e-2;  // gradients or activations of 16 bit
inline constexpr double kNotComparable = -1;    // the knob changes the task or the reported loss

enum class BenchLaunch { kLocal, kTwoRanks, kFourRanks, kPserver };  // loopback processes

// A comparison of two jobs. One has `with` and `from`, if it is set. The other has `with`,
// `changed` and `also`.
struct KnobBench {
  const char* knob;     // its path from DistributedStrategy
  const char* changed;  // the value to compare with the default
  // The value that must change: a name of CountsByName (trainer/session/run_counts.h), "loss" (of
  // the last step), or "": only the time.
  const char* counter;
  const char* network = "lenet";  // a name in BenchNetworks(); the user may choose another
  BenchLaunch launch = BenchLaunch::kLocal;
  double tolerance = kSameBits;
  std::vector<const char*> with =
      {};  // settings of both runs: "NAME=VALUE"; {dir}: the work directory
  std::vector<const char*> also = {};  // settings of the changed run
  const char* from = nullptr;          // replaces the default if that gives no valid job
  int steps = 0;                       // steps per run; 0: the network's
};

// In the order of the proto file.
const std::vector<KnobBench>& KnobBenches();
// The rows about parameter servers, which are consecutive in KnobBenches().
std::vector<KnobBench> PserverKnobBenches();
std::vector<KnobBench> PserverFlagBenches();

// A built knob without a row in KnobBenches(), with the reason.
struct UnbenchedKnob {
  const char* knob;
  const char* why;
};
const std::vector<UnbenchedKnob>& UnbenchedKnobs();

// A job on generated images.
struct BenchNetwork {
  const char* name;
  const char* doc;
  int steps;        // steps of a run that takes about a second
  const char* job;  // text of its file
};
const std::vector<BenchNetwork>& BenchNetworks();

// INVALID_ARGUMENT: unknown name; the message has the nearest one.
StatusOr<const BenchNetwork*> FindBenchNetwork(std::string_view name);
// The rows of the knobs named "a,b" (paths, or their ends); "": all. INVALID_ARGUMENT: unknown
// name, with the nearest one, or a knob that is not measured, with the reason.
StatusOr<std::vector<const KnobBench*>> ChooseKnobs(const std::string& names);

}  // namespace tandem::deploy
