// What the demo found, as a screen and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "deploy/cli/demo/demo_kill.h"

namespace tandem::deploy {

// What rank 0 of one run wrote at its end (tandem-trainer --result_json).
struct DemoRun {
  double accuracy = 0;  // of the test set, 0 to 1
  double images_per_s = 0;
  double seconds = 0;  // of the trainer
  int64_t steps = 0;
  std::string params_sha256;
};

// NOT_FOUND, or DATA_LOSS when the file is not what a trainer writes.
StatusOr<DemoRun> ReadDemoRun(const std::string& path);

struct DemoResult {
  DemoRun pserver, collective;
  double seconds = 0;              // of the whole demo
  std::optional<KillReport> kill;  // in the pserver run; absent: nobody was to be killed
  UpdateCount updates;             // of the pserver run, when there was a kill

  bool SameBits() const {
    return !pserver.params_sha256.empty() && pserver.params_sha256 == collective.params_sha256;
  }
  // Updates that the killed server had promised and came back without, or that are missing at the
  // end.
  int64_t Lost() const;
  bool Good() const {
    return SameBits() && (!kill || (kill->recovered() && Lost() == 0 && updates.doubled == 0));
  }
};

// The block at the end of the demo. `color_fd`: where it will be printed.
std::string DemoText(const DemoResult& result, int color_fd);

// One line: {"accuracy_pserver", "accuracy_collective", "same_bits", "images_per_s": {"pserver",
// "collective"}, "seconds", "params_sha256": {...}, "kill": null or {"pserver", "version",
// "back_seconds", "updates", "lost", "doubled", "repeated"}}.
std::string DemoJson(const DemoResult& result);

}  // namespace tandem::deploy
