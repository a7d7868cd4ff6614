// Internals of RunJob. Only job*.cc include this header.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "pserver/client/client.h"
#include "tests/sim/carrier.h"
#include "tests/sim/group.h"
#include "tests/sim/job.h"
#include "tests/sim/ledger.h"
#include "tests/sim/process.h"
#include "tests/sim/server.h"

namespace tandem::pserver {

inline constexpr int kFirstTrainerNode = 100, kFirstMoverNode = 200, kFirstCutterNode = 300;
inline constexpr char kSimJob[] = "sim";

class SimJob {
 public:
  explicit SimJob(const SimPlan& plan)
      : plan_(plan),
        world_(plan.seed),
        network_(world_, plan.network),
        ledger_(plan.servers, plan.trainers, plan.steps) {
    if (plan.keep_trace) world_.KeepTrace();
    if (plan.standbys != 0) MakeGroups();
    for (int i = 0; i < plan.servers + plan.moves && plan.standbys == 0; ++i) {
      servers_.push_back(std::make_unique<SimServer>(
          i,
          SimServerOptions{kSimJob, plan.trainers, plan.wal_sync, plan.log_bytes_max,
                           plan.checkpoint_every_steps, plan.forget_previous, plan.replayable,
                           plan.keep_bytes_max},
          world_));
      calls_.push_back(servers_.back().get());
      addresses_.push_back(absl::StrFormat("server-%d", i));
    }
    retired_.resize(servers_.size());
    trainers_.resize(static_cast<size_t>(plan.trainers));
  }
  ~SimJob() {
    for (Trainer& t : trainers_) {
      for (const auto& process : t.processes) process->Kill();
    }
    for (const auto& process : movers_) process->Kill();
    for (const auto& process : cutters_) process->Kill();
    for (auto& server : servers_) {
      if (server->alive()) server->Kill(false);
    }
    EndGroups();
    world_.Forget();
  }

  SimReport Run();

 private:
  struct Trainer {
    // All processes of this rank. The last one is current, older ones may be paused.
    std::vector<std::shared_ptr<SimProcess>> processes;
    uint64_t incarnation = 0;
    std::string last_words;
    bool done = false;
  };

  void Fail(const std::string& what) {
    if (report_.failure.empty()) report_.failure = what;
  }
  void StartServer(int index) {
    if (const Status status = servers_[index]->Start(); !status.ok()) Fail(ToString(status));
  }
  void KillServer(int index);
  void StartTrainer(int rank);
  void KillTrainer(int rank);
  void TearStep(int rank, int server);
  void PauseTrainer(int rank);
  Status Train(int rank, uint64_t incarnation, const std::shared_ptr<SimProcess>& process);
  uint64_t StepBound(uint64_t done) const;
  // Makes one step: pushes `batch` and stores the new parameters in `next`. Calls `meanwhile` after
  // the push has begun.
  Status Step(ps::PsClient& client, SimProcess& process, uint64_t step, SimBatch& batch,
              SimBatch& next, const std::function<void()>& meanwhile);
  void Mischief();
  struct MoverTask {
    int source, target;
    int stride;  // 1: move all buckets of the source; n: move every n-th bucket
    bool back, retire, slices_alone;
    bool Retires(int spare) const {
      return source == spare && stride == 1 && !back && retire && !slices_alone;
    }
  };
  void StartMover(int spared = -1);
  Status RunMover(const std::shared_ptr<SimProcess>& process, const MoverTask& task);
  void KillMover();
  void Retire(int index);
  void TellAll();
  std::vector<int> BucketsOf(int index) const;  // Returns the buckets that server `index` serves.
  std::string OwnersAreWrong(bool settled);
  // ---- Servers with standbys (job_standbys.cc) --------------------------------------------------
  void MakeGroups();
  void EndGroups();
  void HarmGroup();
  void HarmRepair(SimGroup& group, int member);
  void CutMembers(SimGroup& group);
  void PauseMember(SimGroup& group);
  bool AwaitGroups();
  void CheckGroups();
  std::string CheckMembers(SimGroup& group);

  void StartCutter();
  Status RunCutter(const std::shared_ptr<SimProcess>& process, uint64_t number);
  void KillCutter();
  void CheckCuts();
  void CheckRestore(uint64_t number);
  void CheckServers();
  bool Done() const {
    return !report_.failure.empty() || report_.given_up ||
           std::any_of(groups_.begin(), groups_.end(),
                       [](const auto& group) { return !group->wrong().empty(); }) ||
           std::all_of(trainers_.begin(), trainers_.end(), [](const Trainer& t) { return t.done; });
  }
  Duration Pause(int most_ms) {
    return world_.Between(std::chrono::milliseconds(1), std::chrono::milliseconds(most_ms));
  }

  const SimPlan plan_;
  SimReport report_;
  SimWorld world_;
  SimNetwork network_;
  SimLedger ledger_;
  std::vector<std::unique_ptr<SimServer>> servers_;
  std::vector<std::unique_ptr<SimGroup>> groups_;  // servers with standbys, instead of servers_
  std::vector<SimAddress*> calls_;                 // the server or group of each index
  std::vector<std::string> addresses_;
  std::vector<bool> retired_;  // for each server, whether it has left the job
  std::vector<Trainer> trainers_;
  std::vector<std::shared_ptr<SimProcess>> movers_, cutters_;
  struct OneCut {
    Time begun;
    // All servers of the snapshot. Empty until each of them has replied.
    std::vector<int> servers;
    std::vector<ShardSnapshot> images;  // snapshots of the servers in `servers`
  };
  std::map<uint64_t, OneCut> cuts_;  // global snapshots by number
  int mischief_done_ = 0;
};

}  // namespace tandem::pserver
