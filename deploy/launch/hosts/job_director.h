// Makes the decisions about a whole job: which processes are restarted, which ranks are in the
// world of an elastic job, and which failure ends the job. The director of a job is in the
// tandemrun of its leading host. It starts no process and reads no clock.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "deploy/launch/hosts/job_messages.h"
#include "deploy/launch/hosts/rank_scaling.h"
#include "deploy/launch/hosts/server_groups.h"

namespace tandem::deploy {

// Not thread-safe.
class JobDirector {
 public:
  // Version of the first world of an elastic job, which has all ranks. Each host knows it without
  // an order.
  static constexpr int64_t kFirstWorld = 1;

  struct Settings {
    // The host of each trainer, by rank. Hosts have numbers from 0.
    std::vector<int> host_of;
    std::vector<int> pserver_hosts;  // host of each pserver
    // The members of each pserver, if the pservers have standbys; empty: they have none.
    std::vector<ServerPlace> members;
    ServerGroup::Options group;
    int callers_per_worker = 1;  // number of replicas of a trainer (CallersPerWorker)
    int ranks_least = 0;         // elastic: minimum number of ranks; 0: all ranks are needed
    int max_restarts = 0;        // maximum number of restarts of the job
    bool ranks_return = false;   // a lost rank is restarted while the others wait
    // Time for which a failure that is only the consequence of another one waits for a report about
    // the other one. Zero if the job runs on one host, which reports in order.
    Duration patience{};
    // Time within which a new host must replace a lost one, if the job waits for it.
    Duration replaced_within = std::chrono::minutes(10);
    // Time after which a rank that the user scaled away is killed, if it has not left its step.
    Duration retire_max = std::chrono::seconds(60);
  };

  explicit JobDirector(Settings settings);

  // Takes a report of `host`.
  void Take(int host, const JobReport& report, Time now);
  // Handles the loss of a host with all its processes. `name` is the name of the host for messages,
  // `why` the reason.
  void LoseHost(int host, const std::string& name, const std::string& why, Time now);
  // Handles the end of a host that has told it.
  void HostLeft(int host);
  // Returns whether a new host may take the place of lost host `host` now.
  bool MayReplace(int host) const;
  // Returns whether the other hosts know the address of this host, because a pserver or a standby
  // of a pserver runs on it. Only a host with the same address can replace it.
  bool NeedsAddress(int host) const;
  // A new host has taken the place of a lost one. Its ranks start, but are not in the world of an
  // elastic job until they report that they are ready.
  void AddHost(int host, const std::string& name);
  // Ends the job with a failure that has waited for `patience`, or because no host has replaced a
  // lost one.
  void Step(Time now);
  // Returns the time of the next necessary Step and TakeOrders; Time::max(): none.
  Time wakeup() const;

  std::vector<AddressedOrder> TakeOrders() { return std::exchange(orders_, {}); }
  int restarts() const { return restarts_; }

 private:
  bool elastic() const { return settings_.ranks_least > 0; }
  // Returns whether the state of lost trainers is on other ranks or on pservers.
  bool TrainersReturn() const { return settings_.ranks_return || !settings_.pserver_hosts.empty(); }
  bool Over() const { return settings_.ranks_return && any_done_; }
  bool MayRestart(bool can_return) const {
    return can_return && restarts_ < settings_.max_restarts && !Over() && !finished_;
  }
  size_t size() const { return settings_.host_of.size(); }
  int HostOf(int rank) const { return settings_.host_of[static_cast<size_t>(rank)]; }
  // Returns a predicate for the ranks of a host.
  auto RanksOf(int host) const {
    return [this, host](int rank) { return HostOf(rank) == host; };
  }
  // Returns the number of running members of the world.
  int Left() const;
  bool Enough(int left) const;
  std::string LeftText(int left) const;
  bool IsOf(int host, int rank) const;  // returns whether `rank` is a trainer of `host`
  // Returns whether the loss of this host loses the only copy of a pserver.
  bool HasOnlyCopy(int host) const;
  void TakeWait(int host, const JobReport& report);
  void Promote(int server);
  // Changes the number of ranks of an elastic job.
  void Scale(int target, Time now);
  void StartLost(std::vector<int> ranks);
  void Dismiss(int rank, int signal);
  // Removes retired ranks from `ended`.
  void ReleaseRetired(std::vector<ProcessEnd>& ended);
  void TakeSignal(int host, int signal);
  // Lets a host leave that has received a signal. If the job cannot continue without the host, all
  // hosts stop.
  void Release(int host, int signal);
  void TakeEnded(int host, std::vector<ProcessEnd> ended, Time now);
  // Removes killed ranks of an elastic job from the world and from `ended`, if the job can continue
  // without these ranks. A new process for such a rank must report that it is ready before it
  // joins.
  void LoseRanks(int host, std::vector<ProcessEnd>& ended);
  void Restart(int host, const ProcessEnd& process, bool member);
  void Blame(const std::vector<ProcessEnd>& ended, Time now);
  void Admit(int rank);
  void Fail(const Failure& failure);
  // `role`: "host", or "process" for a process that could not be started again.
  void FailFor(const std::string& name, int host, const std::string& why,
               const char* role = "host");
  void PublishWorld();
  void FinishIfDone();
  void Order(JobOrder order, int to = AddressedOrder::kAll) {
    orders_.push_back({to, std::move(order)});
  }
  void Note(const char* event, const std::string& process, const std::string& text,
            const std::string& shown);
  void Add(std::vector<AddressedOrder> orders) {
    for (AddressedOrder& order : orders) orders_.push_back(std::move(order));
  }

  const Settings settings_;
  ServerGroups servers_;
  RankScaling scaling_;
  std::set<int> running_;  // ranks of the trainers that run or are being restarted
  std::set<int> members_;  // ranks in the world
  // A lost host for whose trainers the job waits.
  struct Awaited {
    std::string name;
    Time until;
  };
  std::set<int> lost_hosts_;
  std::map<int, Awaited> awaited_;  // by number of the host
  JobOrder world_;                  // the order with the present world
  int restarts_ = 0;
  bool any_done_ = false;
  bool ending_ = false;    // the job stops or has failed
  bool finished_ = false;  // kFinish was ordered
  bool ending_by_signal_ = false;
  std::set<int> signalled_;  // hosts that have received a signal
  std::optional<Failure> held_;
  Time held_until_{};
  std::vector<AddressedOrder> orders_;
};

}  // namespace tandem::deploy
