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
  std::string dir;  // directory for the result files; created if missing
  std::string job;
  int rank = 0;
  int threads = 1;                // number of kernel threads, to measure the reference speed
  const RpcLog* calls = nullptr;  // calls to pservers; must outlive the profile; nullptr: no calls
  double bubble = 0;              // pipeline job: expected share of a step in which a rank waits
};

// Profiles the steps of one rank. Not thread-safe.
class StepProfile {
 public:
  // `plan` must outlive this object. INVALID_ARGUMENT: the configuration selects no step.
  static StatusOr<std::unique_ptr<StepProfile>> Make(const ProfileConfig& config,
                                                     ProfilePlace place, const exec::Plan& plan);
  ~StepProfile();

  // Returns the profiler for step `step` of this session (from 0); nullptr: the step is not
  // profiled.
  exec::Profiler* At(int64_t step);
  // Writes the files once: after the last profiled step, or after the last step of the session
  // (`last`). Returns a message for the user; "": After wrote nothing. PERMISSION_DENIED: a file
  // cannot be written; the message names the file.
  StatusOr<std::string> After(int64_t step, bool last);

 private:
  StepProfile(const ProfileConfig& config, ProfilePlace place, const exec::Plan& plan);
  StatusOr<std::string> Write();

  const std::unique_ptr<const ProfileConfig> config_;
  const ProfilePlace place_;
  exec::Profiler profiler_;
  Status traced_;  // error of tracing the device; OK: traced
  bool written_ = false;
};

// The process number of the first server in a timeline. The number is larger than all ranks,
// because ranks are process numbers too.
inline constexpr int kServerProcess = 1'000'000;

// Returns a trace in Chrome's trace event format, with timestamps in microseconds since the first
// span. The rank is a process of the trace, with a thread for each track, and threads for the calls
// to each server. Communications are asynchronous events, because they overlap. Each server is a
// process of the trace, with its updates at times of the rank's clock. An arrow leads from each
// push to its update, and from the update to the reply with the parameters. "otherData" contains
// the clock data by which several timelines are aligned (deploy/cli/tools/profile.cc).
std::string ChromeTrace(const exec::Profiler& profiler, const std::vector<ps::PsCall>& calls,
                        const std::string& job, int rank);

}  // namespace tandem::trainer
