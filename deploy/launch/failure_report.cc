#include "deploy/launch/failure_report.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "common/base/require.h"
#include "common/os/host_limits.h"
#include "common/os/own_files.h"

namespace tandem::deploy {
namespace {

std::string WhatHappened(const Failure& failure) {
  if (failure.silent_s > 0) {
    return absl::StrFormat("did not reply for %.1f s and was killed [TD3012]", failure.silent_s);
  }
  if (failure.early) return "ended with exit code 0 before the trainers did";
  if (failure.stuck) return "did not end on SIGTERM and had to be killed";
  return failure.exit.Text();
}

// Returns whether the line is one of the settings that a trainer prints at its start.
// Example: "epochs: 3   (job.pbtxt:4:1)".
bool IsSetting(const std::string& line) {
  return line.ends_with(')') && absl::StrContains(line, ": ") && absl::StrContains(line, "   (");
}

// Returns the lines of a log in which the process describes its failure: all lines from the last
// error on. If the log contains no error, returns all lines except the settings.
std::vector<std::string> LastWords(const std::vector<std::string>& lines) {
  const auto is_error = [](const std::string& line) {
    return absl::StrContains(line, ": error: ");
  };
  const auto error = std::find_if(lines.rbegin(), lines.rend(), is_error);
  if (error != lines.rend()) return {std::prev(error.base()), lines.end()};
  std::vector<std::string> words;
  for (const std::string& line : lines) {
    if (!IsSetting(line)) words.push_back(line);
  }
  return words;
}

// Returns the first error code in `words`, such as "TD2001"; "": there is no error code.
std::string CodeIn(const std::vector<std::string>& words) {
  for (const std::string& line : words) {
    const size_t at = line.find("[TD");
    const size_t end = at == line.npos ? line.npos : line.find(']', at);
    if (end != line.npos) return line.substr(at + 1, end - at - 1);
  }
  return "";
}

// Returns an exit code as text if it is one of the codes with a meaning (status.h); else "".
std::string CodeIn(int exit_code) {
  constexpr std::array kMeant = {kExitUsage,      kExitData,   kExitUnavailable, kExitIo,
                                 kExitPermission, kExitConfig, kExitLostPeer,    kExitStorage};
  const bool meant = std::find(kMeant.begin(), kMeant.end(), exit_code) != kMeant.end();
  return meant ? std::to_string(exit_code) : "";
}

std::string HintOfCrash(const Failure& failure) {
  const std::string limits = LowLimits();
  if (limits.empty())
    return "report the crash, which is a bug of the program, with " + failure.log_file;
  return absl::StrFormat(
      "check the limits of this host, which may be too low for the process: %s; report a crash "
      "without a low limit as a bug, with %s",
      limits, failure.log_file);
}

// Returns a hint for the user, which depends on the exit code (common/base/status.h).
std::string Hint(const Failure& failure, const std::vector<std::string>& words) {
  if (failure.role == "host") {
    return "check the host and its network, and start the job again; collective mode can continue "
           "without the host (--hosts=MIN:MAX), or with one that replaces it (--max_restarts=N)";
  }
  if (failure.silent_s > 0) {
    return "set --max_restarts=N to restart a process that hangs or is stopped (SIGSTOP); set also "
           "--pserver_data_dir=DIR if the process is a pserver";
  }
  if (failure.stuck) return "give the process more time to end with --grace_s=SECONDS";
  if (failure.exit.signal == SIGKILL) {
    return "look for the sender of SIGKILL: a user, a job scheduler, or the kernel because of a "
           "memory shortage";
  }
  if (failure.exit.signal != 0) return HintOfCrash(failure);
  if (failure.last_lines.empty()) {
    return "run tandemrun with --dry_run to see the command and environment of the process";
  }
  const std::string code = CodeIn(words).empty() ? CodeIn(failure.exit.code) : CodeIn(words);
  std::string what = "read the complete output in " + failure.log_file;
  if (!code.empty()) what = "run tandem explain " + code + "; " + what;
  if (failure.exit.code == kExitStorage) {
    return "set --max_restarts=N to restart a process after a failure of its storage; " + what;
  }
  if (failure.exit.code != kExitLostPeer) return what;
  return "start the job again; the process lost a peer, and the cause may be on another host; " +
         what;
}

}  // namespace

int JobExitCode(const Failure& failure) {
  if (failure.silent_s > 0) return kExitLostPeer;
  const int code = failure.exit.AsExitCode();
  return code == 0 || failure.stuck ? kExitFailure : code;
}

std::string FailureText(const std::string& job, const Failure& failure,
                        const std::vector<std::string>& others, const std::string& error_file) {
  TD_REQUIRE(!failure.role.empty());
  std::string text = absl::StrFormat("tandemrun: error: job \"%s\" failed\n", job);
  if (failure.role == "process") {
    text += absl::StrFormat("  first failure  %s: %s\n  details        %s\n", failure.host,
                            failure.text, error_file);
    return text + "hint: read the output of tandemrun on the host of the process\n";
  }
  if (failure.role == "host") {
    text +=
        "  first failure  " + absl::StrFormat("%s: %s [TD3016]", failure.host, failure.text) + "\n";
    text += absl::StrFormat("  details        %s\n", error_file);
    return text + "hint: " + Hint(failure, {}) + "\n";
  }
  text += absl::StrFormat("  first failure  %s %d on host %s (pid %d): %s, after %.1f s\n",
                          failure.role, failure.rank, failure.host, failure.pid,
                          WhatHappened(failure), failure.after_s);
  const std::vector<std::string> words = LastWords(failure.last_lines);
  if (failure.last_lines.empty()) {
    text += "  log            " + failure.log_file + " (empty)\n";
  } else {
    text += "  log            " + failure.log_file + ", its last lines:\n";
    for (const std::string& line : words) text += "    | " + line + "\n";
  }
  for (const std::string& other : others) text += "  then           " + other + "\n";
  text += "  details        " + error_file + "\n";
  return text + "hint: " + Hint(failure, words) + "\n";
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
  if (!failure.text.empty()) json["text"] = failure.text;
  if (failure.exit.signal != 0) {
    json["signal"] = SignalName(failure.exit.signal);
  } else {
    json["exit_code"] = failure.exit.code;
  }
  // A log may contain bytes that are not UTF-8. Such bytes are replaced, because JSON must be
  // UTF-8.
  return WriteOwnFile(path,
                      json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace tandem::deploy
