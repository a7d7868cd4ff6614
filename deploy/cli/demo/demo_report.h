// The result of `tandem demo`, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "deploy/cli/demo/demo_kill.h"

namespace tandem::deploy {

// The result of one job of the demo. Rank 0 writes it at the end (tandem-trainer --result_json).
struct DemoRun {
  double accuracy = 0;  // accuracy on the test set, 0 to 1
  double images_per_s = 0;
  double seconds = 0;  // duration of the trainer in seconds
  int64_t steps = 0;
  std::string params_sha256;
};

// Reads a job's result. NOT_FOUND: no such file. DATA_LOSS: the file is not a trainer's result.
StatusOr<DemoRun> ReadDemoRun(const std::string& path);

struct DemoResult {
  DemoRun pserver, collective;
  double seconds = 0;              // duration of the whole demo in seconds
  std::optional<KillReport> kill;  // the kill of a pserver; nullopt: no kill was planned
  UpdateCount updates;             // updates of the pserver job, if a pserver was killed

  bool SameBits() const {
    return !pserver.params_sha256.empty() && pserver.params_sha256 == collective.params_sha256;
  }
  // Returns the number of lost updates, which is the larger of two numbers. The first number counts
  // the updates that the killed server had acknowledged and that its successor did not have at its
  // start. The second number counts the updates that are missing at the end of the job. 0: no kill
  // was planned.
  int64_t Lost() const;
  bool Good() const {
    return SameBits() && (!kill || (kill->recovered() && Lost() == 0 && updates.doubled == 0));
  }
};

// Returns the text that the demo prints at its end. `color_fd` is the descriptor of the output.
std::string DemoText(const DemoResult& result, int color_fd);

// Returns one line of JSON: {"accuracy_pserver", "accuracy_collective", "same_bits",
// "images_per_s": {"pserver", "collective"}, "seconds", "params_sha256": {...}, "kill": null or
// {"pserver", "version", "back_seconds", "updates", "lost", "doubled", "repeated"}}.
std::string DemoJson(const DemoResult& result);

}  // namespace tandem::deploy
