// Profiles some steps of a job and writes the result files (ProfileConfig in proto/job.proto).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "kernels/exec/profile.h"

namespace tandem {
class ProfileConfig;
}  // namespace tandem

namespace tandem::ps {
struct PsCall;
}  // namespace tandem::ps

namespace tandem::trainer {

class RpcLog;

struct ProfilePlace {
  std::string dir;  // output directory; created if missing
  std::string job;
  int rank = 0;
  int threads = 1;                // kernel threads, for the reference speed
  const RpcLog* calls = nullptr;  // calls to pservers; must outlive the profile; nullptr: none
  double bubble = 0;              // for a pipeline: expected share of a step that ranks wait
};

// Not thread-safe.
class StepProfile {
 public:
  // `plan` must outlive the profile. INVALID_ARGUMENT: there is no step to profile.
  static StatusOr<std::unique_ptr<StepProfile>> Make(const ProfileConfig& config,
                                                     ProfilePlace place, const Plan& plan);
  ~StepProfile();

  // The profiler for step `step` of this run (from 0); nullptr: the step is not profiled.
  Profiler* At(int64_t step);
  // Writes the files once, after the last profiled step or at the end of the run. Returns a message
  // for the user; "": not written yet. PERMISSION_DENIED: a file cannot be written; the message
  // names it.
  StatusOr<std::string> After(int64_t step, bool last);

 private:
  StepProfile(const ProfileConfig& config, ProfilePlace place, const Plan& plan);
  StatusOr<std::string> Write();

  const std::unique_ptr<const ProfileConfig> config_;
  const ProfilePlace place_;
  Profiler profiler_;
  Status traced_;  // the reason why the device is not traced
  bool written_ = false;
};

// The process number of the first server in a timeline; it comes after all ranks, which are
// processes too.
inline constexpr int kServerProcess = 1'000'000;

// Makes a trace in Chrome's trace event format, with timestamps in microseconds since the first
// span. The rank is a process, with a thread for each track, and threads for the calls to each
// server. Communications overlap, so they are asynchronous events. Each server is a process with
// its updates, by the rank's clock. Arrows lead from pushes to updates and to the replies with the
// parameters. "otherData" has the clock data to align several timelines
// (deploy/cli/tools/profile.cc).
std::string ChromeTrace(const Profiler& profiler, const std::vector<ps::PsCall>& calls,
                        const std::string& job, int rank);

}  // namespace tandem::trainer
