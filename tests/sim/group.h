// A server with standbys in a simulated job: its members, and the launcher, which decides with the
// product's ServerGroup which member is the primary (deploy/launch/hosts/server_groups.cc).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "deploy/launch/hosts/server_group.h"
#include "tests/sim/network.h"
#include "tests/sim/server.h"

namespace tandem::pserver {

// The members of one server and their launcher. Can inject faults, and checks what the members do.
// Not thread-safe.
class SimGroup final : public SimAddress {
 public:
  // The data that are lost when a member is killed: none, data that were not synced to the disk
  // (a loss of power), or the whole disk.
  enum class Loss : uint8_t { kNone, kPower, kDisk };
  struct Counts {
    int64_t deaths = 0, disks = 0, promotions = 0, hangs = 0, stale = 0;
  };

  // `options`: the options of every member. options.group.standbys is the number of standbys.
  // `deaths_while_damaged`: see SimPlan.
  SimGroup(int index, const SimServerOptions& options, bool deaths_while_damaged, SimWorld& world,
           SimNetwork& network);
  ~SimGroup() override;

  void Start();  // starts the launcher and all members
  // Returns the primary. While a stale primary runs, returns the stale primary for half of the
  // calls.
  SimServer* Listener() override;
  SimServer* primary();  // the serving member that the launcher has chosen; null: none
  int members() const { return static_cast<int>(members_.size()); }
  SimServer& member(int number) { return *members_[static_cast<size_t>(number)]->server; }

  // ---- Faults -----------------------------------------------------------------------------------
  // Kills a member, which the launcher starts again after a pause. The member loses log entries
  // only if the group has been whole since the previous loss of entries; otherwise `loss` counts as
  // kNone. If `deaths_while_damaged` is false, no other member can be killed until the group is
  // whole again. Does nothing if the member must not be killed now.
  void Kill(int member, Loss loss);
  // Makes the disk of a member full for the time `pause`. Does nothing if the member must not be
  // killed now, because a member that cannot store its term ends.
  void FillDisk(int member, Duration pause);
  // Calls Kill during one of the next operations of the member's disk.
  void KillSoon(int member, Loss loss);
  // Kills all members and the launcher, and starts them again.
  void Restart(bool power);
  // Pauses a member. The launcher kills it if it does not reply for some seconds.
  void Pause(int member, Duration pause);
  // Makes the launcher believe that the primary has died, and promote a standby, although the old
  // primary still runs or is paused. After the time `pause`, kills the old primary.
  void LoseContact(Duration pause);

  // Returns whether the group is whole: all members run, and each standby has all log entries of
  // the primary.
  bool whole();
  const std::string& wrong() const { return wrong_; }  // the first fault; "": none
  // Returns whether the launcher has ended the server (TD4030). Only with deaths_while_damaged.
  bool given_up() const { return given_up_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Member {
    std::unique_ptr<SimServer> server;
    bool known = false;  // true: the launcher believes that the process runs
    bool stale = false;  // true: the process runs, but the launcher believes that it has died
    bool lossy = false;  // true: the member has lost log entries since the group was last whole
  };
  Member& Of(int member) { return *members_[static_cast<size_t>(member)]; }
  bool MayDie(int member) const;
  bool MayLose();
  void End(int member, Loss loss);
  void Launch();  // starts a launcher and the members
  void StartMember(int member);
  void StartSoon(int member);
  void Send(const std::vector<deploy::ServerGroup::Command>& commands);
  void Deliver(int member, const MemberCommand& command);
  void OnRefused(const Status& why);
  void OnReport(int member, const MemberReport& report);
  void OnTerm(int member, const LogTerm& term, uint64_t last);
  void OnReplicated(int member, const LogTerm& term, uint64_t number);
  bool AllHave(uint64_t number);  // whether all members run and have the entries up to `number`
  void Tick();                    // runs every 10 ms
  void Ping();                    // runs every second
  void NoteTold();
  void Wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }
  Duration Soon(int most_ms) {
    return world_.Between(std::chrono::milliseconds(1), std::chrono::milliseconds(most_ms));
  }

  struct Term {
    LogTerm term;
    uint64_t last = 0;  // number of the last log entry that was written in an earlier term
    int member = 0;
  };

  const int index_;
  SimWorld& world_;
  const WalSync wal_sync_;
  const Replication replication_;
  const bool deaths_while_damaged_;
  std::unique_ptr<deploy::ServerGroup> group_;
  std::vector<std::unique_ptr<Member>> members_;
  uint64_t launches_ = 0;  // number of launchers so far
  uint64_t told_ = 0;      // highest version of the parameters in any reply to a client
  // True: a member has lost log entries since the group was last whole. Also true until the group
  // is whole for the first time.
  bool damaged_ = true;
  bool given_up_ = false;
  bool caught_up_ = false;  // true: the group has been whole in the current term
  // The current term, and the log entry up to which all members must have the log. Then the group
  // counts as whole.
  Term goal_;
  std::vector<Term> terms_;
  std::string wrong_;
  Counts counts_;
};

}  // namespace tandem::pserver
