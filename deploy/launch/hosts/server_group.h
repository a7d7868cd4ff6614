// Decides which member of a server with standbys is its primary, as a state machine that starts and
// kills no process itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/launcher/member_messages.h"

namespace tandem::deploy {

// The members of one server, which are its primary and its standbys. The group chooses the next
// primary only after the process of the previous primary has ended, or after its host is lost. The
// processes of a lost host may still run. Such a primary acknowledges no further push: a report
// counts for a choice only if its member has stopped following the previous primary
// (MemberCommand::kHold), and the members that have not reported are fewer than the primary needs.
//
// The server acknowledges a push after 1 + members / 2 members have logged the push. Among any
// members - members / 2 complete members (MemberReport::complete), at least one member therefore
// has each acknowledged push, and the latest state of these members has all of them. States are
// ordered by term, then by log entry, as in Raft's elections (Ongaro and Ousterhout, USENIX ATC
// 2014, section 5.4.1). A term is the time during which one primary serves; each primary has a
// higher term number than the primaries before. Not thread-safe.
class ServerGroup {
 public:
  struct Command {
    int member = 0;
    MemberCommand command;
  };

  // The term of a promoted primary is the next multiple of this number. The gaps are for primaries
  // that restore a checkpoint: such a primary increases its term by 1, and may be lost before the
  // group learns the new term.
  static constexpr uint64_t kTermStride = 1000;
  // The default of Options::unanswered_max. The group makes one request per second.
  static constexpr int kUnansweredMax = 5;
  // The limit for a member that is becoming the primary, or that must stop following. A member that
  // becomes the primary may have to wait until the previous primary has released the server's
  // address.
  static constexpr int kUnansweredMaxBegin = 30;
  // The limit for a member that ends, because it closes its store.
  static constexpr int kUnansweredMaxEnd = 30;

  struct Options {
    // Whether a push is acknowledged only after a majority of the members has logged it. Otherwise
    // only the primary is sure to have a push, so the group waits for the reports of all members,
    // then promotes the latest.
    bool quorum = true;
    // A member counts as hanging if it has left more than this number of requests unanswered.
    int unanswered_max = kUnansweredMax;
    // Number of strides that the first term of this group skips. It should be random: the group of
    // an earlier run may have given terms that only a lost disk has.
    uint64_t terms_skipped = 0;
  };
  // `index`: index of the server, for messages. REQUIRES: members >= 2.
  ServerGroup(int index, int members) : ServerGroup(index, members, Options()) {}
  ServerGroup(int index, int members, Options options);

  void OnStarted(int member);  // a process of this member was started
  void OnEnded(int member);    // the process of this member has ended
  // The member has closed its socket, and ends. It may still close its store.
  void OnClosed(int member);
  // Handles a report. Returns true if this report shows that the chosen member now serves.
  bool OnReport(int member, const MemberReport& report);
  // Returns the commands to send now. The caller calls Next after each of the calls above, and adds
  // the address of the primary to the commands of kind kFollow.
  std::vector<Command> Next();
  // Returns a request for a report to each running member. The caller calls Ping once per second.
  std::vector<Command> Ping();
  // Returns the command with which the primary ends after its standbys have all its log entries.
  // REQUIRES: serving().
  Command HandOver();
  // Returns whether HandOver was called and the primary has not ended since.
  bool handing_over() const { return handing_over_; }
  // Returns whether a push is acknowledged only after a majority of the members has logged it.
  bool quorum() const { return options_.quorum; }
  // Returns whether the member runs and hangs: it has replied before, but not to the last requests.
  bool Hangs(int member) const;
  // Returns the number of requests that the member may leave unanswered now.
  int LimitOf(int member) const;
  // Returns whether a process of the member runs.
  bool runs(int member) const { return members_[static_cast<size_t>(member)].running; }
  // Returns whether enough members run to acknowledge pushes.
  bool CanAcknowledge() const;
  // Returns whether all members run, and their newest reports say that they have the complete
  // state.
  bool IsWhole() const;
  // Returns the member that was chosen as the primary; -1: none.
  int primary() const { return primary_; }
  bool serving() const { return serving_; }  // whether the chosen member serves
  // Returns whether pushes wait for members: the primary has a state, and fewer members have the
  // complete state than a push needs.
  bool PushesWait() const;
  // Returns what the choice of a primary, or the pushes, wait for, for a message. REQUIRES:
  // !serving() or PushesWait().
  std::string Awaited() const;
  uint64_t term() const { return term_; }  // highest known term
  // Returns whether the chosen member has a predecessor since the launcher started.
  bool replaced() const { return choices_ > 1; }

 private:
  struct Member {
    bool running = false, answered = false, closed = false;
    // Number of the command to follow the present primary; 0: the member has not got it, or a
    // report shows that the command was lost.
    uint64_t follows = 0;
    uint64_t asked = 0;    // number of the last request
    uint64_t held_at = 0;  // number of the first kHold without an answer; 0: none
    int unanswered = 0;    // number of requests since the last report
    bool refused = false;  // true: the member got the command kRefuse
    std::optional<MemberReport> report;
    // The latest complete state that any process of the member reported.
    std::optional<MemberReport> furthest;
    // Returns whether the reported state is older than `furthest`, because the disk has lost the
    // newest log entries. A server loses them with the power of its host unless it runs with
    // --wal_sync=always.
    bool HasLostEntries() const;
  };

  Member& Of(int member);
  Command Ask(int member);
  // Returns the report of the member for the current election; null: the member does not run, or
  // has not reported since the election began. All requests during an election are kHold.
  const MemberReport* Vote(const Member& member) const;
  // Returns the text about a member that Awaited needs; "": nothing waits for this member.
  std::string AwaitedOf(const Member& member) const;
  std::vector<Command> Choose();
  // Returns the command kFollow for each running member that has not got it yet.
  std::vector<Command> Gather();
  std::vector<Command> Appoint(int member, const MemberCommand& command);
  // Returns the command of Appoint if a report shows that it was lost, otherwise nothing.
  std::vector<Command> AppointAgain();
  // Returns the command kRefuse, with the reason, for each running member that has not got it yet.
  std::vector<Command> Refuse();

  const int index_;
  const Options options_;
  std::vector<Member> members_;
  int primary_ = -1;
  MemberCommand appointment_;      // the command with which `primary_` was chosen
  uint64_t appointed_after_ = 0;   // number of the last request before `appointment_`
  bool appointment_lost_ = false;  // true: `primary_` has not got `appointment_`
  bool serving_ = false;           // true: the chosen member serves
  bool handing_over_ = false;
  int handed_over_ = -1;    // the member whose hand-over began the present election; -1: none
  int choices_ = 0;         // number of choices of a primary since the launcher started
  bool had_state_ = false;  // true: a member has reported a state since the launcher started
  std::string refused_;     // why no member can become the primary; "": no obstacle is known
  uint64_t term_ = 0;
  uint64_t requests_ = 0;       // number of requests so far
  uint64_t election_from_ = 1;  // number of the first request of the current election
};

}  // namespace tandem::deploy
