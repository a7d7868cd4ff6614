// A simulated parameter server. The server uses the product's shard, log, checkpoints and calls.
// Events of a SimWorld replace threads, and a SimDisk replaces the disk.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/launcher/member_messages.h"
#include "common/rpc/pserver_call.h"
#include "kernels/exec/backend.h"
#include "pserver/replication/log_source.h"
#include "pserver/service/tensor_calls.h"
#include "pserver/shard/durable_shard.h"
#include "tests/sim/disk.h"

namespace tandem::pserver {

// Number of the first node in the network that is a member of a server with standbys. Member m of
// server i is node kFirstMemberNode + 10 * i + m.
inline constexpr int kFirstMemberNode = 1000;
inline constexpr int kFirstReplica = 5;
inline constexpr Duration kSimSyncInterval = std::chrono::milliseconds(100);

class SimNetwork;
class SimServer;
class SimStandby;

// The address of a server in the job.
class SimAddress {
 public:
  virtual ~SimAddress() = default;
  // Returns the server that receives a call now; null: no process listens at this address.
  virtual SimServer* Listener() = 0;
};

// Options of one member of a server with standbys, or of a replica. Members are the primary and its
// standbys.
struct SimMemberOptions {
  int standbys = 0;  // 0: the server has no standbys
  // Number of this member. Replicas have numbers from kFirstReplica on.
  int member = 0;
  bool replica = false;           // the process follows a server and answers readers
  SimNetwork* network = nullptr;  // the network between members and replicas
  SimAddress* address = nullptr;  // the address of the primary, which replicas call
  // Returns a member if it serves as a primary, current or stale; null: it does not.
  std::function<SimServer*(int member)> primary = {};
  // Called when the process has begun a term as the primary. `last`: number of the last log entry
  // that the new term has from earlier terms.
  std::function<void(int member, const LogTerm& term, uint64_t last)> on_term;
  // Called when a primary learns that a majority has stored the entries up to `number`.
  std::function<void(int member, const LogTerm& term, uint64_t number)> on_replicated;
};

struct SimServerOptions {
  std::string job;
  int trainers = 0;
  WalSync wal_sync = WalSync::kAlways;
  uint64_t log_bytes_max = uint64_t{1} << 40;
  uint64_t checkpoint_every_steps = 0;
  bool forget_previous = false;  // injects a bug: see the constructor of SimDisk
  // Whether the log has only the order of pushes. If so, trainers keep their pushes.
  bool replayable = false;
  uint64_t keep_bytes_max = 0;
  Replication replication = Replication::kQuorum;
  SimMemberOptions group = {};
  // The checkpoints that members send to each other; null: the server has no standbys and no
  // readers.
  std::shared_ptr<SimCheckpoints> checkpoints = nullptr;
  // Maximum number of changed rows of a table that the server remembers; 0: no table is followed.
  size_t changed_rows_max = 0;
};

// A server and its disk, or one member of a server with standbys, or a replica. The disk survives
// the death of the process. Not thread-safe.
class SimServer final : public SimAddress {
 public:
  using Answer = std::function<void(const Status&, std::string)>;

  // `index`: the number of the server in the job.
  SimServer(int index, SimServerOptions options, SimWorld& world);
  ~SimServer() override;

  // Starts a process, which recovers the state from the disk. Returns the errors of
  // DurableShard::Recover. DATA_LOSS also: no logged push lacks its values, but the recovered
  // version is below the highest version in a reply to a push or a pull. Without wal_sync=always,
  // only replies after the last power loss count.
  Status Start();
  // Simulates SIGKILL. If `power` is true, the machine also loses power. Operations in progress are
  // not completed.
  void Kill(bool power);
  bool alive() const { return life_ != nullptr; }
  int index() const { return index_; }
  SimServer* Listener() override;
  // Handles a request. Calls `answer` once with the reply, or never if the process dies first.
  void Handle(rpc::PserverCall call, const std::string& request, Answer answer);

  Shard& shard();  // Returns the shard of the running process. REQUIRES: alive().
  // Restores a global snapshot. REQUIRES: alive(), and no call is in progress.
  Status Restore(uint64_t snapshot);
  SimDisk& disk() { return disk_; }

  // ---- Members of a server with standbys --------------------------------------------------------
  // Kills the process and replaces its disk by an empty one.
  void LoseDisk();
  // Pause simulates SIGSTOP, and Continue simulates SIGCONT. REQUIRES: alive().
  void Pause();
  void Continue();
  bool paused() const;
  // Handles a command of the launcher (pserver/server_process.cc). Sends reports with `send`. If
  // the process must end, passes the reason to `end`, which kills the process.
  using SendReport = std::function<void(const MemberReport&)>;
  using Ended = std::function<void(const Status&)>;
  void OnCommand(const MemberCommand& command, const SendReport& send, const Ended& end);
  // Lets the clock of the process jump ahead. REQUIRES: alive().
  void JumpClock(Duration by);
  bool serves() const;       // whether the process is the primary
  bool complete() const;     // whether a standby has a complete state; true for a primary
  LogTerm log_term() const;  // term of the log; no history: none, or no process runs
  LogSource* source();       // null: no process runs, or the server has no standbys
  uint64_t stored() const;   // number of the last entry that the process has written to its log
  uint64_t last() const;     // number of the last entry that a standby or a primary has
  uint64_t lives() const { return lives_; }  // number of processes so far
  int node() const;                          // node of the network between members
  uint64_t told() const { return told_; }    // highest version in a reply since data were lost

  // Describes a wrong reply of this server; "": there was none.
  const std::string& wrong() const { return wrong_; }
  // Calls `told` when the process dies. Thus callers that wait for a reply detect the broken
  // connection.
  void OnDeath(std::function<void()> told) { mourners_.push_back(std::move(told)); }

 private:
  friend class SimStandby;
  struct Life;
  Status StartMember();
  MemberReport Report() const;
  void HandleStandby(rpc::PserverCall call, const std::string& request, Answer answer);
  bool follows() const { return options_.group.standbys != 0 || options_.group.replica; }
  bool Grows();  // whether the version in replies never decreases

  const int index_;
  const SimServerOptions options_;
  SimWorld& world_;
  SimDisk disk_;
  uint64_t lives_ = 0;
  std::string wrong_;
  bool restored_ = false;       // a client restored a global snapshot, so versions may decrease
  uint64_t told_ = 0;           // highest version in any reply to a push or a pull
  std::shared_ptr<Life> life_;  // the running process; null: none
  std::vector<std::function<void()>> mourners_;
};

}  // namespace tandem::pserver
