// Internals of RunJob. Only job*.cc include this header.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "pserver/client/client.h"
#include "tests/sim/carrier.h"
#include "tests/sim/follower.h"
#include "tests/sim/group.h"
#include "tests/sim/job.h"
#include "tests/sim/ledger.h"
#include "tests/sim/process.h"
#include "tests/sim/server.h"
#include "tests/sim/source.h"

namespace tandem::pserver {

inline constexpr int kFirstTrainerNode = 100, kFirstMoverNode = 200, kFirstCutterNode = 300;
inline constexpr int kFirstFollowerNode = 900, kFirstOperatorNode = 950;
inline constexpr char kSimJob[] = "sim";

class SimJob {
 public:
  explicit SimJob(const SimPlan& plan)
      : plan_(plan),
        world_(plan.seed),
        network_(world_, plan.network),
        ledger_(plan.servers, plan.trainers, plan.steps, plan.fading) {
    if (plan.keep_trace) world_.KeepTrace();
    const SimServerOptions options = ServerOptions();
    if (plan.standbys != 0) MakeGroups(options);
    for (int i = 0; i < plan.servers + plan.moves && plan.standbys == 0; ++i) {
      servers_.push_back(std::make_unique<SimServer>(i, options, world_));
      calls_.push_back(servers_.back().get());
      addresses_.push_back(absl::StrFormat("server-%d", i));
    }
    if (plan.followers != 0) MakeReaders(options);
    if (plan.source) {
      source_.emplace(world_, plan.trainers, plan.steps,
                      [this](uint64_t record) { return SlotOfRecord(record); });
    }
    retired_.resize(calls_.size());
    trainers_.resize(static_cast<size_t>(plan.trainers));
  }
  ~SimJob() {
    for (Trainer& t : trainers_) {
      for (const auto& process : t.processes) process->Kill();
    }
    followers_.clear();
    for (const auto& process : movers_) process->Kill();
    for (const auto& process : cutters_) process->Kill();
    for (const auto& process : operators_) process->Kill();
    for (auto& server : servers_) {
      if (server->alive()) server->Kill(false);
    }
    EndMembers();
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
  SimServerOptions ServerOptions() const;
  void StartServer(int index);
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
  };
  // Returns whether the source of the move leaves the job. Servers with standbys never leave.
  bool Retires(const MoverTask& task) const {
    const bool spare = groups_.empty() && task.source + 1 == static_cast<int>(calls_.size());
    return spare && task.stride == 1 && !task.back && task.retire && !task.slices_alone;
  }
  void StartMover(int spared = -1);
  Status RunMover(const std::shared_ptr<SimProcess>& process, const MoverTask& task);
  void KillMover();
  void Retire(int index);
  void TellAll();
  std::vector<int> BucketsOf(int index);  // Returns the buckets that server `index` serves.
  std::string OwnersAreWrong(bool settled);
  // ---- Servers with standbys (job_standbys.cc) --------------------------------------------------
  void MakeGroups(SimServerOptions options);
  void EndMembers();
  void HarmGroup();
  void HarmRepair(SimGroup& group, int member);
  void CutMembers(SimGroup& group);
  void PauseMember(SimGroup& group);
  bool AwaitGroups();
  void CheckGroups();
  std::string CheckMembers(SimGroup& group);
  void CheckLost(const std::vector<ShardSnapshot>& images);

  // ---- Followers and replicas (job_readers.cc) --------------------------------------------------
  void MakeReaders(const SimServerOptions& options);
  void StartReaders();
  void StartReplica(SimServer& replica);
  void HarmReader();
  SimServer* ServerOf(int index);  // the process that serves now; null: none
  void AwaitReaders(const std::vector<ShardSnapshot>& images);
  void CheckReplicas();
  void CheckVersions();
  void CountReaders();

  // ---- Streams (job_source.cc) ------------------------------------------------------------------
  int64_t SlotOfRecord(uint64_t record) const;
  struct Push {
    int rank = 0;
    uint64_t step = 0;
  };
  // Returns the push of the ledger that a trainer makes in a step: its own step, or the next
  // record.
  StatusOr<Push> NextPush(const reader::StreamDataset* stream, int rank, uint64_t step) const;
  void StartOperator();
  Status RunOperator(const std::shared_ptr<SimProcess>& process);
  bool CuttersRun() const;
  bool Rewinds() const;  // whether a restore is in progress

  void StartCutter();
  Status RunCutter(const std::shared_ptr<SimProcess>& process, uint64_t number);
  void KillCutter();
  void CheckCuts();
  void CheckCutsOfMembers();
  // Returns the server, or the primary of the server's members; null: it has no primary now.
  SimServer* ServerOf(size_t index);
  void CheckRestore(uint64_t number);
  void CheckServers();
  bool Done() const {
    if (report_.failure.empty() && Rewinds()) return false;
    return !report_.failure.empty() || report_.given_up ||
           std::any_of(
               groups_.begin(), groups_.end(),
               [](const auto& group) { return !group->wrong().empty() || group->given_up(); }) ||
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
  std::vector<std::unique_ptr<SimServer>> replicas_;
  std::vector<std::unique_ptr<SimFollower>> followers_;
  std::optional<SimSource> source_;                     // set if SimPlan::source
  std::vector<std::shared_ptr<SimProcess>> operators_;  // processes that restore the job
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
