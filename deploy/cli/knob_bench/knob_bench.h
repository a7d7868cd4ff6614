// What `tandem bench knobs` measures of each knob: the table is knob_bench_table.cc. A test holds
// it to the list of built knobs (common/strategy/knobs.h): each stands in one of the two lists.
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
inline constexpr double kNotComparable = -1;    // the knob is what is trained, or whose loss it is

enum class BenchLaunch { kLocal, kTwoRanks, kFourRanks, kPserver };  // of loopback processes

// One comparison: a job with `with` and, where it is given, `from`, against the same job with
// `changed` and `also`.
struct KnobBench {
  const char* knob;     // its path from DistributedStrategy
  const char* changed;  // the value that is compared with the default
  // What moves: a name of RunCounts (trainer/session/run_counts.h), "loss" (of the last step), or
  // "": time alone.
  const char* counter;
  const char* network = "lenet";  // of BenchNetworks(), unless the user chose one
  BenchLaunch launch = BenchLaunch::kLocal;
  double tolerance = kSameBits;
  std::vector<const char*> with =
      {};  // settings of both runs: "NAME=VALUE"; {dir}: the work folder
  std::vector<const char*> also = {};  // settings of the changed run
  const char* from = nullptr;          // instead of the default, where that one makes no job
  int steps = 0;                       // of a run; 0: the network's
};

// In the order of the proto file.
const std::vector<KnobBench>& KnobBenches();
// Those of them that are about parameter servers, which stand one behind another.
std::vector<KnobBench> PserverKnobBenches();
std::vector<KnobBench> PserverFlagBenches();

// A built knob that has no row in KnobBenches(), and why.
struct UnbenchedKnob {
  const char* knob;
  const char* why;
};
const std::vector<UnbenchedKnob>& UnbenchedKnobs();

// A job on made-up images.
struct BenchNetwork {
  const char* name;
  const char* doc;
  int steps;        // of a run that takes about a second
  const char* job;  // text of its file
};
const std::vector<BenchNetwork>& BenchNetworks();

// INVALID_ARGUMENT with the nearest name.
StatusOr<const BenchNetwork*> FindBenchNetwork(std::string_view name);
// The rows of the knobs named "a,b" (paths, or their ends); "": all. INVALID_ARGUMENT with the
// nearest name, or with the reason for one that is not measured.
StatusOr<std::vector<const KnobBench*>> ChooseKnobs(const std::string& names);

}  // namespace tandem::deploy
