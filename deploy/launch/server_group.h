// Decides which member of a server with standbys is its primary, as a state machine that starts and
// kills no process itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/launcher/member_messages.h"

namespace tandem::deploy {

// The members of one server, all on this host. A member is chosen only when the process of the
// previous primary has ended, so two members never serve at the same time.
//
// A push is acknowledged when 1 + members / 2 members have logged it, so a set of
// members - members / 2 members has each acknowledged push, if none of them lacks what it had
// before (MemberReport::complete). The latest state in such a set is therefore complete. States are
// ordered by term, then by log entry, as in Raft's elections (Ongaro and Ousterhout, USENIX ATC
// 2014, section 5.4.1). Not thread-safe.
class ServerGroup {
 public:
  struct Command {
    int member = 0;
    MemberCommand command;
  };

  // A promotion gives the next multiple of this number as the term. A restored checkpoint gives the
  // next number, perhaps just before its primary is lost, so the group may not know of it.
  static constexpr uint64_t kTermStride = 1000;
  // Number of unanswered requests, one per second, after which a member hangs.
  static constexpr int kUnansweredMax = 5;
  // The same for a member that becomes the primary, which may wait for the address.
  static constexpr int kUnansweredMaxBegin = 30;

  // `index`: index of the server, for messages. REQUIRES: members >= 2.
  ServerGroup(int index, int members);

  void OnStarted(int member);  // a process of this member was started
  void OnEnded(int member);    // the process of this member has ended
  // Handles a report. Returns true if this report shows that the chosen member now serves.
  bool OnReport(int member, const MemberReport& report);
  // Returns the commands to send now. Called after each of the calls above.
  std::vector<Command> Next();
  // Returns a request to each running member. Called once per second.
  std::vector<Command> Ping();
  // Returns whether the running member hangs: it has replied before, but not to the last requests.
  bool Hangs(int member) const;
  // Returns whether all members run, and their newest reports say that they have the complete
  // state.
  bool IsWhole() const;
  // Returns the chosen member; -1: there is none.
  int primary() const { return primary_; }
  uint64_t term() const { return term_; }  // highest known term
  // Returns whether the chosen member has a predecessor since the launcher started.
  bool replaced() const { return choices_ > 1; }

 private:
  struct Member {
    bool running = false, answered = false;
    uint64_t asked = 0;    // number of the last request
    int unanswered = 0;    // number of requests since the last report
    bool refused = false;  // was told refused_
    std::optional<MemberReport> report;
  };

  Member& Of(int member);
  Command Ask(int member);
  // Returns the report of a running member in this election; null: there is none.
  const MemberReport* Vote(const Member& member) const;
  std::vector<Command> Choose();
  std::vector<Command> Appoint(int member, const MemberCommand& command);
  // Tells each running member why no member can be chosen, once.
  std::vector<Command> Refuse();

  const int index_;
  std::vector<Member> members_;
  int primary_ = -1;
  bool serving_ = false;    // the chosen member serves
  int choices_ = 0;         // number of chosen members since the launcher started
  bool had_state_ = false;  // a member had a state since the launcher started
  std::string refused_;     // why no member can be chosen; "": one can
  uint64_t term_ = 0;
  uint64_t requests_ = 0;       // number of requests so far
  uint64_t election_from_ = 1;  // number of the first request of this election
};

}  // namespace tandem::deploy
