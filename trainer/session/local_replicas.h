// The replicas of one worker (execution_strategy.cpu_num): copies of the program in one process.
// Each replica has its own thread and a share of the batch. A replica is a rank like any other:
// worker w of W with P replicas each has the ranks w*P to w*P + P-1 of W*P. A local job with P
// replicas and a collective job with P workers therefore train the same parameters, bit for bit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "trainer/modes/common_options.h"
#include "trainer/reader/open.h"
#include "trainer/session/session.h"

namespace tandem::collective {
class Communicator;
}  // namespace tandem::collective

namespace tandem::trainer {

// Not thread-safe, except RequestStop.
class LocalReplicas {
 public:
  // Opens the data, which all replicas share, unless the options have them. Then makes the
  // sessions. `options.rank` is the worker; Make fills in batch and data of the options. `config`,
  // `clock` and the options' status reporter must outlive the replicas.
  static StatusOr<std::unique_ptr<LocalReplicas>> Make(const JobConfig& config,
                                                       SessionOptions options,
                                                       const ModeSecrets& secrets,
                                                       const Clock& clock);
  ~LocalReplicas();

  // Runs all replicas to the end. Returns the result of the first replica, or the first failure.
  StatusOr<SessionResult> Run();
  // Calls Session::RequestStop on each replica.
  void RequestStop();
  // Session::TakeKept of the first replica.
  std::shared_ptr<const ElasticState> TakeKept() { return places_[0]->TakeKept(); }

 private:
  LocalReplicas() = default;
  // Adds replica `index` of `worker`. `communicator` connects replicas that reduce in memory;
  // nullptr: they do not.
  Status AddPlace(const JobConfig& config, SessionOptions options, const ModeSecrets& secrets,
                  const RankInfo& worker, std::unique_ptr<collective::Communicator> communicator,
                  const Clock& clock);

  reader::TrainAndTest data_;
  Agreement agreement_;  // for jobs with processes as ranks
  std::vector<std::unique_ptr<Session>> places_;
};

// Runs replicas one after another. Stop, from any thread, stops the running replicas: these and all
// later ones end with CANCELLED.
class StopSwitch {
 public:
  StatusOr<SessionResult> Run(LocalReplicas& places);
  void Stop();
  bool stopped() { return WaitFor(Duration::zero()); }
  // Waits until Stop is called, at most `time`. Returns whether Stop was called.
  bool WaitFor(Duration time);

 private:
  void Set(LocalReplicas* places);

  Mutex mu_;
  CondVar told_;
  LocalReplicas* running_ TD_GUARDED_BY(mu_) = nullptr;
  bool stopped_ TD_GUARDED_BY(mu_) = false;
};

}  // namespace tandem::trainer
