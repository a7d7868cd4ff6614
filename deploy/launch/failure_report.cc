#include "deploy/launch/failure_report.h"
#include "common/base/files.h"

#include <signal.h>

#include <nlohmann/json.hpp>

namespace tandem::deploy {
namespace {

std::string WhatHappened(const Failure& failure) {
  if (failure.silent_s > 0) {
    return absl::StrFormat("did not answer for %.1f s, and was killed [TD3012]", failure.silent_s);
  }
  if (failure.early) return "ended with exit code 0 before the trainers did";
  if (failure.stuck) return "did not end on SIGTERM and had to be killed";
  return failure.exit.Text();
}

// The last hint that the process wrote; empty: none.
std::string OwnHint(const Failure& failure) {
  constexpr std::string_view kMark = "hint: ";
  for (size_t i = failure.last_lines.size(); i-- > 0;) {
    if (failure.last_lines[i].starts_with(kMark)) return failure.last_lines[i].substr(kMark.size());
  }
  return "";
}

// What to do next: what the process said, or else by the meaning of its code
// (common/base/status.h).
std::string Hint(const Failure& failure) {
  if (failure.silent_s > 0) {
    return "it hung, or was stopped (SIGSTOP); --max_restarts=N starts such a process again, a "
           "pserver with --pserver_data_dir";
  }
  if (failure.stuck) return "--grace_s=SECONDS gives it more time to end";
  if (failure.exit.signal == SIGKILL) {
    return "SIGKILL comes from outside: a person, a job scheduler, or the kernel on memory "
           "shortage";
  }
  if (failure.exit.signal != 0) return "a crash is a bug of the program; please report it";
  if (std::string own = OwnHint(failure); failure.exit.code != 0 && !own.empty()) return own;
  switch (failure.exit.code) {
    case kExitUsage:
      return "a flag, a knob or the job file is wrong; the message above names it";
    case kExitUnavailable:
      return "a service was absent or a port taken; is another job running?";
    case kExitLostPeer:
      return "it lost a peer: the cause may be on another host; the job is worth another try";
    case kExitStorage:
      return "its storage failed while in use; its words above name the folder; --max_restarts "
             "starts it again";
    default:
      return failure.last_lines.empty()
                 ? "it wrote nothing; --dry_run shows its command and environment"
                 : "its own words are above";
  }
}

}  // namespace

int JobExitCode(const Failure& failure) {
  if (failure.silent_s > 0) return kExitLostPeer;
  const int code = failure.exit.AsExitCode();
  return code == 0 || failure.stuck ? kExitFailure : code;
}

std::string FailureText(const std::string& job, const Failure& failure,
                        const std::vector<std::string>& others, const std::string& error_file) {
  std::string text = absl::StrFormat("tandemrun: error: job \"%s\" failed\n", job);
  text += absl::StrFormat("  first failure  %s %d on host %s (pid %d): %s, after %.1f s\n",
                          failure.role, failure.rank, failure.host, failure.pid,
                          WhatHappened(failure), failure.after_s);
  if (failure.last_lines.empty()) {
    text += "  log            " + failure.log_file + " (empty)\n";
  } else {
    text += "  log            " + failure.log_file + ", its last lines:\n";
    for (const std::string& line : failure.last_lines) text += "    | " + line + "\n";
  }
  for (const std::string& other : others) text += "  then           " + other + "\n";
  text += "  details        " + error_file + "\n";
  return text + "hint: " + Hint(failure) + "\n";
}

Status WriteErrorFile(const std::string& path, const std::string& job, const Failure& failure,
                      const std::vector<std::string>& others) {
  nlohmann::json json = {{"job", job},
                         {"role", failure.role},
                         {"rank", failure.rank},
                         {"host", failure.host},
                         {"pid", failure.pid},
                         {"time", failure.time},
                         {"after_s", failure.after_s},
                         {"log_file", failure.log_file},
                         {"last_lines", failure.last_lines},
                         {"others", others}};
  if (failure.exit.signal != 0) {
    json["signal"] = SignalName(failure.exit.signal);
  } else {
    json["exit_code"] = failure.exit.code;
  }
  // A log may hold any bytes; JSON may not.
  return WriteTextFile(path,
                       json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace tandem::deploy
