// The places of one worker (execution_strategy.cpu_num): replicas of the program in one process,
// each on a thread of its own with a share of the batch. A place is a rank like any other: worker w
// of W with P places each has the ranks w*P to w*P + P-1 of W*P. So P places of a local job, and P
// workers of a collective one, train the same parameters, bit for bit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "trainer/reader/open.h"
#include "trainer/session/session.h"

namespace tandem {

// What a worker shows of itself to others.
struct ModeSecrets {
  std::string job;                      // the job's secret; empty: none
  TlsFiles tls;                         // towards pservers
  bool insecure_allow_network = false;  // without TLS, pservers at addresses of a network
};

// One thread, but RequestStop.
class LocalReplicas {
 public:
  // Opens the data, which all places share, unless the options have them, and makes their sessions.
  // `options.rank` is the worker; batch and data of the options are filled in here. `config`,
  // `clock` and the options' board must outlive the places.
  static StatusOr<std::unique_ptr<LocalReplicas>> Make(const JobConfig& config,
                                                       SessionOptions options,
                                                       const ModeSecrets& secrets,
                                                       const Clock& clock);
  ~LocalReplicas();

  // Runs all of them to the end: the result of the first place, or what failed first.
  StatusOr<SessionResult> Run();
  // Session::RequestStop of each.
  void RequestStop();
  // Session::TakeKept of the first.
  std::shared_ptr<const ElasticState> TakeKept() { return places_[0].session->TakeKept(); }

 private:
  struct Place {
    std::unique_ptr<ModeDriver> mode;
    std::unique_ptr<Session> session;
  };
  LocalReplicas() = default;
  // Place `index` of `worker`. `communicator` connects places that reduce in memory; nullptr: they
  // do not.
  Status AddPlace(const JobConfig& config, SessionOptions options, const ModeSecrets& secrets,
                  const RankInfo& worker, std::unique_ptr<Communicator> communicator,
                  const Clock& clock);

  TrainAndTest data_;
  Agreement agreement_;  // of jobs whose ranks are processes
  std::vector<Place> places_;
};

// Runs places one after another and stops those that run, from any thread: then they and all later
// ones end with CANCELLED.
class StopSwitch {
 public:
  StatusOr<SessionResult> Run(LocalReplicas& places);
  void Stop();
  bool stopped() { return WaitFor(Duration::zero()); }
  // Until Stop is called, or so long: whether it was.
  bool WaitFor(Duration time);

 private:
  void Set(LocalReplicas* places);

  Mutex mu_;
  CondVar told_;
  LocalReplicas* running_ TD_GUARDED_BY(mu_) = nullptr;
  bool stopped_ TD_GUARDED_BY(mu_) = false;
};

}  // namespace tandem
