// A server with standbys in a simulated job: its members, and the launcher, which decides with the
// product's ServerGroup which member is the primary (deploy/launch/server_groups.cc).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "deploy/launch/server_group.h"
#include "tests/sim/network.h"
#include "tests/sim/server.h"

namespace tandem::pserver {

// Not thread-safe.
class SimGroup final : public SimAddress {
 public:
  // Data that a death destroys besides the process.
  enum class Loss : uint8_t { kNone, kPower, kDisk };
  struct Counts {
    int64_t deaths = 0, disks = 0, promotions = 0, hangs = 0, stale = 0;
  };

  // `options`: of all members; SimServerOptions::group has the number of standbys.
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
  // Kills a member, which the launcher starts again after a pause. A loss of entries has no effect
  // unless the group is whole since the previous one. If `deaths_while_damaged` is false, the other
  // members do not die until the group is whole again.
  void Kill(int member, Loss loss);
  // Kills a member in an operation of its disk soon.
  void KillSoon(int member, Loss loss);
  // Kills all members and the launcher, and starts them again.
  void Restart(bool power);
  // Pauses a member. The launcher kills it if it does not reply for some seconds.
  void Pause(int member, Duration pause);
  // The launcher takes the primary for dead for the time `pause`, and promotes a standby, although
  // the primary runs or is paused. REQUIRES: there is one standby, because a launcher with more
  // standbys must end the primary first.
  void LoseContact(Duration pause);

  // All members run, and each standby has all entries of the primary.
  bool whole();
  const std::string& wrong() const { return wrong_; }  // the first fault; "": none
  const Counts& counts() const { return counts_; }

 private:
  struct Member {
    std::unique_ptr<SimServer> server;
    bool known = false;  // the launcher takes the process for running
    bool stale = false;  // the process runs, but the launcher takes it for dead
    bool lossy = false;  // the member has lost entries, and the group was not whole since then
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
  void OnReport(int member, const MemberReport& report);
  void OnTerm(int member, const LogTerm& term, uint64_t last);
  void OnReplicated(int member, const LogTerm& term, uint64_t number);
  bool AllHave(uint64_t number);  // all members run, and have the entries up to `number`
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
    uint64_t last = 0;  // last entry from earlier terms
    int member = 0;
  };

  const int index_;
  SimWorld& world_;
  const WalSync wal_sync_;
  const bool deaths_while_damaged_;
  std::unique_ptr<deploy::ServerGroup> group_;
  std::vector<std::unique_ptr<Member>> members_;
  uint64_t launches_ = 0;  // number of launchers so far
  uint64_t told_ = 0;      // highest version in any reply
  // true: a member has lost entries, and the group was not whole since then. At the start, too.
  bool damaged_ = true;
  bool caught_up_ = false;  // the group is whole since the term began
  Term goal_;  // the entry that all members must have in a term, so that the group is whole
  std::vector<Term> terms_;
  std::string wrong_;
  Counts counts_;
};

}  // namespace tandem::pserver
