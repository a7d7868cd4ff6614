// The messages of a job's tandemruns: reports of a host about its processes, and orders of the
// leading host. A job on one host uses the same reports and orders inside one process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/launcher/member_messages.h"
#include "deploy/launch/process/failure.h"

namespace tandem::deploy {

// A process in a report: its kind ("trainer", "pserver" or "caller") and its number among the
// processes of this kind.
struct NamedProcess {
  std::string kind;
  int number = 0;
};

struct ProcessWait {
  NamedProcess who, whom;
  // The time waited and its limits, as in LauncherWait (common/launcher/launcher_words.h).
  Duration waited{}, limit{}, start_limit{};
};

// A process that has ended, or that hangs and has been killed.
struct ProcessEnd {
  std::string name;         // ProcessPlan::Name()
  int rank = -1;            // rank of a trainer; -1: the process is no trainer
  bool done = false;        // true: a trainer that has completed the job
  bool killed = false;      // true: a signal ended the process
  bool lost = false;        // true: a restart may help, because the process did not fail by itself
  bool can_return = false;  // ProcessPlan::can_return
  bool failed = false;      // true: the job fails, unless it continues without the process
  // Numbers of a pserver with standbys and of its member; -1: the process is no such member.
  int server = -1, server_member = -1;
  Failure failure;  // meaningful if `failed`
};

// A message about a member of a pserver with standbys.
struct MemberNews {
  enum class Kind : uint8_t {
    kStarted,  // a process of the member was started
    kClosed,   // the member has closed its socket to tandemrun, and ends
    kState     // the member has sent the report `state`
  };
  Kind kind = Kind::kState;
  int server = 0, member = 0;
  MemberReport state;
};

// A report of a host to the leading host.
struct JobReport {
  enum class Kind : uint8_t {
    kEnded,         // the processes `ended` have ended between two checks
    kUnresponsive,  // the process ended[0] hangs; the host has sent SIGKILL to it
    kReady,         // trainer `number`, which is not in the world, can join
    kWait,          // a process waits for a process of another host
    kSignal,        // the host has received signal `number`, which stops the job
    kStartLost,     // the user requests a start of all lost ranks
    // The host cannot start `process` again; `text` is the reason. `number`: its rank, if it is a
    // trainer; -1: it is none.
    kNotStarted,
    kLeave,    // the host has received signal `number`, and leaves an elastic job if that can
               // continue
    kEvent,    // `event` about `process`, for the events of the other hosts
    kMember,   // `member` is news about a member of a pserver
    kPromote,  // the user requests that a standby of pserver `number` becomes its primary
    kScale     // the user requests that an elastic job has `number` ranks
  };
  Kind kind = Kind::kEnded;
  std::vector<ProcessEnd> ended;
  int number = 0;
  std::string text;
  std::string event;    // kEvent: the kind of the event (JobEvent)
  std::string process;  // kEvent, kNotStarted: name of the process
  ProcessWait wait;
  MemberNews member;
};

// An order of the leading host to one host, or to all hosts.
struct JobOrder {
  enum class Kind : uint8_t {
    kRestart,    // start `process` again, as restart `number`; `member`: it stays in the world
    kWorld,      // the world has version `version` and `members`; `over`: a rank is done
    kFailed,     // the job ends because of `failure`
    kSignal,     // another host has received signal `number`
    kFinish,     // all trainers of the job have ended
    kOver,       // a rank has completed the job, so that lost ranks do not return
    kStartLost,  // start the lost ranks `members`; empty: all lost ranks
    kRelease,    // the job continues without this host, which ends with signal `number`
    kWait,       // a process waits for a process of this host
    kNote,       // an event about `process`; the host also shows `shown` to the user
    kMember,     // `command` for member `server_member` of pserver `server`
    kPrimary,    // `process` serves as the primary of its pserver, in the term that `text` names
    kKill,  // kill `process`, because of `event` and `text`; `number`: the seconds it was silent
    kEnd    // send signal `number` to `process`, which has left the world
  };
  Kind kind = Kind::kNote;
  std::string process;
  int number = 0;
  bool member = true;
  int64_t version = 0;
  std::vector<int> members;
  bool over = false;
  Failure failure;
  std::string event, text;  // the event (JobEvent; empty: none) and its details
  std::string shown;        // text for the user; empty: none
  ProcessWait wait;
  int server = -1, server_member = -1;
  MemberCommand command;
};

// An order for one host, or for all hosts.
struct AddressedOrder {
  static constexpr int kAll = -1;
  int to = kAll;
  JobOrder order;
  int except = kAll;  // a host that does not get the order; kAll: each host gets it
};

}  // namespace tandem::deploy
