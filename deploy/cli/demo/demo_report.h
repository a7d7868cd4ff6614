// The result of the demo, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "deploy/cli/demo/demo_kill.h"

namespace tandem::deploy {

// The result of one run, written by rank 0 at its end (tandem-trainer --result_json).
struct DemoRun {
  double accuracy = 0;  // on the test set, 0 to 1
  double images_per_s = 0;
  double seconds = 0;  // duration of the trainer
  int64_t steps = 0;
  std::string params_sha256;
};

// NOT_FOUND: no such file. DATA_LOSS: not a trainer's result.
StatusOr<DemoRun> ReadDemoRun(const std::string& path);

struct DemoResult {
  DemoRun pserver, collective;
  double seconds = 0;              // duration of the whole demo
  std::optional<KillReport> kill;  // in the pserver run; nullopt: no kill was planned
  UpdateCount updates;             // updates of the pserver run, if there was a kill

  bool SameBits() const {
    return !pserver.params_sha256.empty() && pserver.params_sha256 == collective.params_sha256;
  }
  // Updates that the killed server had acknowledged and its successor lacks, or that are missing at
  // the end.
  int64_t Lost() const;
  bool Good() const {
    return SameBits() && (!kill || (kill->recovered() && Lost() == 0 && updates.doubled == 0));
  }
};

// The text at the end of the demo. `color_fd`: the output's descriptor.
std::string DemoText(const DemoResult& result, int color_fd);

// One line: {"accuracy_pserver", "accuracy_collective", "same_bits", "images_per_s": {"pserver",
// "collective"}, "seconds", "params_sha256": {...}, "kill": null or {"pserver", "version",
// "back_seconds", "updates", "lost", "doubled", "repeated"}}.
std::string DemoJson(const DemoResult& result);

}  // namespace tandem::deploy
