// The profile of some steps of a job: which steps, and the files that come out (ProfileConfig in
// proto/job.proto).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "kernels/exec/profile.h"

namespace tandem {

class ProfileConfig;
class RpcLog;
struct PsCall;

struct ProfilePlace {
  std::string dir;  // is made
  std::string job;
  int rank = 0;
  int threads = 1;                // of the kernels, for what they are measured against
  const RpcLog* calls = nullptr;  // to pservers; must outlive the profile. nullptr: none are shown
  double bubble = 0;              // of a pipeline: share of a step that its ranks should wait
};

// One thread.
class StepProfile {
 public:
  // `plan` must outlive it. INVALID_ARGUMENT unless there is a step to profile.
  static StatusOr<std::unique_ptr<StepProfile>> Make(const ProfileConfig& config,
                                                     ProfilePlace place, const Plan& plan);
  ~StepProfile();

  // Whether step `step` of this run (from 0) is one of them; then its observer.
  Profiler* At(int64_t step);
  // Writes the files once, behind the last of its steps or at the end of the run, and returns what
  // to tell the user; "" when it is not yet time. PERMISSION_DENIED naming a file that cannot be
  // written.
  StatusOr<std::string> After(int64_t step, bool last);

 private:
  StepProfile(const ProfileConfig& config, ProfilePlace place, const Plan& plan);
  StatusOr<std::string> Write();

  const std::unique_ptr<const ProfileConfig> config_;
  const ProfilePlace place_;
  Profiler profiler_;
  Status traced_;  // why the device is not seen
  bool written_ = false;
};

// The process of the first server in a timeline: behind all ranks, which are processes too.
inline constexpr int kServerProcess = 1'000'000;

// Chrome's trace event format, timestamps in microseconds since the first span. A process for the
// rank, with a thread for each lane and threads for the calls to each server; communications, which
// overlap, as asynchronous events. A process for each server with its updates, by the rank's clock,
// and arrows from pushes to the updates and on to the answers with the parameters. "otherData" has
// what tells the clocks of several timelines apart (deploy/cli/tools/profile.cc).
std::string ChromeTrace(const Profiler& profiler, const std::vector<PsCall>& calls,
                        const std::string& job, int rank);

}  // namespace tandem
