// The table of measurements that `tandem bench knobs` makes, one for each knob
// (knob_bench_table.cc). A test compares the table with the built knobs (common/strategy/knobs.h).
// Each built knob must be in KnobBenches() or in UnbenchedKnobs().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

// Values for KnobBench::tolerance, the allowed KnobResult::LossDifference of two runs. kSameBits:
// the losses must have the same bits.
inline constexpr double kSameBits = 0;
// Allowed difference if the two runs add numbers in different orders.
inline constexpr double kOtherOrder = 1e-3;
// Allowed difference if gradients or activations have 16 bits.
inline constexpr double kHalfPrecision = 5e-2;
// The losses are not compared, because the knob changes the task or the reported loss.
inline constexpr double kNotComparable = -1;

// The processes of a run, which are connected over loopback.
enum class BenchLaunch { kLocal, kTwoRanks, kFourRanks, kPserver };

// A comparison of two jobs. The first job has the settings `with`, and the value `from` of the knob
// if `from` is set. The second job has the settings `with`, the value `changed` of the knob, and
// the settings `also`.
struct KnobBench {
  const char* knob;     // path of the knob from DistributedStrategy
  const char* changed;  // value of the knob that is compared with the default
  // The value that must differ between the two jobs: a name of CountsByName
  // (trainer/session/run_counts.h), or "loss", the loss of the last step. "": only the times of the
  // jobs are compared.
  const char* counter;
  const char* network = "lenet";  // name in BenchNetworks(); the user may choose another network
  BenchLaunch launch = BenchLaunch::kLocal;
  double tolerance = kSameBits;
  std::vector<const char*> with =
      {};  // settings of both jobs, as "NAME=VALUE"; {dir} is the work directory
  std::vector<const char*> also = {};  // further settings of the second job
  // Value of the knob in the first job if the default gives no valid job; nullptr: the default.
  const char* from = nullptr;
  int steps = 0;  // steps per run; 0: BenchNetwork::steps of the network
};

// Returns the rows in the order of the proto file.
const std::vector<KnobBench>& KnobBenches();
// These functions return the rows about parameter servers, which are consecutive in KnobBenches().
std::vector<KnobBench> PserverKnobBenches();
std::vector<KnobBench> PserverFlagBenches();

// A built knob that has no row in KnobBenches(), and the reason.
struct UnbenchedKnob {
  const char* knob;
  const char* why;
};
const std::vector<UnbenchedKnob>& UnbenchedKnobs();

// A network that trains on generated images.
struct BenchNetwork {
  const char* name;
  const char* doc;
  int steps;        // number of steps of a run that takes about a second
  const char* job;  // text of the job file
};
const std::vector<BenchNetwork>& BenchNetworks();

// Returns the network `name`. INVALID_ARGUMENT: there is no such network; the message has the
// nearest name.
StatusOr<const BenchNetwork*> FindBenchNetwork(std::string_view name);
// Returns the rows of the knobs in the list `names` ("a,b"). A name is the path of a knob or the
// end of this path. "": all rows. INVALID_ARGUMENT: a name is unknown (the message has the nearest
// name), or the knob is not measured (the message has the reason).
StatusOr<std::vector<const KnobBench*>> ChooseKnobs(const std::string& names);

}  // namespace tandem::deploy
