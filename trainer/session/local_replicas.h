// The replicas of one worker (execution_strategy.cpu_num): copies of the program in one process.
// Each replica has its own thread and a share of the batch. Each replica is a rank: of W workers
// with P replicas each, worker w has the ranks w*P to w*P + P-1 of W*P ranks. A local job with P
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

// The sessions of all replicas of a worker. Not thread-safe, except RequestStop.
class LocalReplicas {
 public:
  // Makes the sessions of all replicas. If `options` has no data, opens the data, which all
  // replicas share. `options.rank` is the rank of the worker. Make sets the batch and the data in
  // the options. `config`, `clock` and the options' status reporter must outlive the replicas.
  static StatusOr<std::unique_ptr<LocalReplicas>> Make(const JobConfig& config,
                                                       SessionOptions options,
                                                       const ModeSecrets& secrets,
                                                       const Clock& clock);
  ~LocalReplicas();

  // Runs all replicas to the end of the job. Returns the result of the first replica, or the first
  // failure of a replica.
  StatusOr<SessionResult> Run();
  // Requests a stop of each replica (Session::RequestStop).
  void RequestStop();
  // Returns Session::TakeKept of the first replica.
  std::shared_ptr<const ElasticState> TakeKept() { return places_[0]->TakeKept(); }

 private:
  LocalReplicas() = default;
  // Adds replica number `index` of `worker`. `communicator`: connects the replicas that reduce
  // gradients in memory; nullptr: the replicas do not reduce in memory.
  Status AddPlace(const JobConfig& config, SessionOptions options, const ModeSecrets& secrets,
                  const RankInfo& worker, std::unique_ptr<collective::Communicator> communicator,
                  const Clock& clock);

  reader::TrainAndTest data_;
  Agreement agreement_;  // settings that all ranks must share; empty in a local job
  std::vector<std::unique_ptr<Session>> places_;
};

// Runs several LocalReplicas in sequence, one in each call of Run. Any thread may call Stop, which
// stops the running replicas. These replicas, and all replicas of later calls of Run, end with
// CANCELLED.
class StopSwitch {
 public:
  StatusOr<SessionResult> Run(LocalReplicas& places);
  void Stop();
  bool stopped() { return WaitFor(Duration::zero()); }
  // Blocks until Stop is called, for at most `time`. Returns whether Stop was called.
  bool WaitFor(Duration time);

 private:
  void Set(LocalReplicas* places);

  Mutex mu_;
  CondVar told_;
  LocalReplicas* running_ TD_GUARDED_BY(mu_) = nullptr;
  bool stopped_ TD_GUARDED_BY(mu_) = false;
};

}  // namespace tandem::trainer
