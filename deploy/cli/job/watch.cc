// Implements the commands status, top, vars and steps, which show a running job.
#include <poll.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/cli/job/job_snapshot.h"
#include "deploy/cli/job/job_snapshot_text.h"

namespace tandem::deploy {
namespace {

constexpr char kWhere[] =
    "LOG_DIR is the log directory of the job (--log_dir of tandemrun, by default log-JOB); without "
    "it\nthe only one in this directory is used. The speed of trainers is known if the job was "
    "started\nwith --status_port.\n";

// Finds the job. Prefers the observer's certificate, which has fewer rights than the
// administrator's.
StatusOr<JobAccess> FindToLook(const ParsedArgs& args) {
  return FindJob(args, {rpc::PeerRole::kObserver, rpc::PeerRole::kAdmin});
}

// Returns the state of the job. Returns an error if no process replies and the log directory shows
// that the job has ended.
StatusOr<JobSnapshot> LookUnlessOver(const JobAccess& access) {
  JobSnapshot now = LookAt(access);
  if (now.NobodyAnswers() && access.record) {
    TD_RETURN_IF_ERROR(CheckNotOver(access.dir, *access.record));
  }
  return now;
}

// Returns exit code 0 if all processes replied, and 69 if a process did not. The text or JSON that
// the command printed contains the causes.
int Verdict(const JobSnapshot& now) { return now.AllAnswer() ? kExitOk : kExitUnavailable; }

StatusOr<int> Show(const ParsedArgs& args, std::string (*text)(const JobSnapshot&),
                   std::string (*json)(const JobSnapshot&)) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindToLook(args));
  TD_ASSIGN_OR_RETURN(const JobSnapshot now, LookUnlessOver(access));
  std::fputs((as_json ? json(now) : text(now)).c_str(), stdout);
  return Verdict(now);
}

// Shows the state of the job repeatedly. On a terminal Top redraws the output in place. In a file
// or pipe Top prints one snapshot after another.
StatusOr<int> Top(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const int count, args.GetInt("count", 0, 1, 1000000000));
  TD_ASSIGN_OR_RETURN(const int interval, args.GetInt("interval_s", 1, 1, 3600));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindToLook(args));
  const bool in_place = !as_json && isatty(STDOUT_FILENO) == 1;
  std::optional<JobSnapshot> before;
  for (int look = 0; count == 0 || look < count; ++look) {
    if (look > 0) poll(nullptr, 0, interval * 1000);
    TD_ASSIGN_OR_RETURN(JobSnapshot now, LookUnlessOver(access));
    const std::string text =
        as_json ? StatusJson(now) : StatusText(now, before ? &*before : nullptr);
    std::printf("%s%s%s", in_place ? "\033[H\033[J" : "", text.c_str(),
                in_place || as_json ? "" : "\n");
    std::fflush(stdout);
    if (before && now.asked != 0 && now.NobodyAnswers()) return int{kExitUnavailable};
    before = std::move(now);
  }
  return Verdict(*before);
}

// Prints the points of a curve from the status page of rank 0, in the order of steps.
StatusOr<int> Steps(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const int last, args.GetInt("last", 10, 1, 1024));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindToLook(args));
  const PageAddress* first = nullptr;
  for (const PageAddress& page : access.pages) {
    if (page.role == "trainer" && first == nullptr) first = &page;
  }
  if (first == nullptr) {
    return FailedPrecondition(
        "the trainers of the job have no status pages [TD7005]; hint: start the job with tandemrun "
        "--status_port=8000, or set --status_pages=HOST:PORT");
  }
  const StatusOr<Page> page = ReadPage(first->endpoint, access.timeout);
  if (!page.ok()) {
    if (access.record) TD_RETURN_IF_ERROR(CheckNotOver(access.dir, *access.record));
    return page.status();
  }
  std::map<double, std::map<std::string, double>> steps;
  std::vector<std::vector<std::string>> table = {{"STEP"}};
  for (const auto& [name, points] : page->series) {
    if (points.empty()) continue;
    table[0].push_back(name);
    for (const auto& [step, value] : points) steps[step][name] = value;
  }
  while (steps.size() > static_cast<size_t>(last)) steps.erase(steps.begin());
  auto json = nlohmann::ordered_json::array();
  for (const auto& [step, values] : steps) {
    std::vector<std::string> row = {absl::StrFormat("%.0f", step)};
    nlohmann::ordered_json line = {{"step", step}};
    for (size_t column = 1; column < table[0].size(); ++column) {
      const auto it = values.find(table[0][column]);
      row.push_back(it == values.end() ? "-" : absl::StrFormat("%.6g", it->second));
      if (it != values.end() && std::isfinite(it->second)) line[it->first] = it->second;
    }
    table.push_back(std::move(row));
    json.push_back(std::move(line));
  }
  std::fputs((as_json ? json.dump(2) + "\n" : TableText(table)).c_str(), stdout);
  return int{kExitOk};
}

}  // namespace

int RunStatus(const Args& args) {
  const std::string usage =
      "tandem status [LOG_DIR]: a job's pservers and trainers, and the slow ones\n";
  return RunBody("status", usage + kWhere, AccessFlags(), args, [](const ParsedArgs& parsed) {
    return Show(
        parsed, [](const JobSnapshot& now) { return StatusText(now, nullptr); }, StatusJson);
  });
}

int RunTop(const Args& args) {
  const std::string usage =
      "tandem top [LOG_DIR]: the status of a job, shown repeatedly, with updates per second\n";
  return RunBody(
      "top", usage + kWhere,
      AccessFlags(
          {{"interval_s", "", "N", "time between two updates of the screen (default 1)"},
           {"count", "", "N", "number of updates of the screen (default: until the job ends)"}}),
      args, Top);
}

int RunVars(const Args& args) {
  const std::string usage =
      "tandem vars [LOG_DIR]: the variables of a job's pservers and their servers\n";
  return RunBody("vars", usage + kWhere, AccessFlags(), args, [](const ParsedArgs& parsed) {
    return Show(parsed, VariablesText, VariablesJson);
  });
}

int RunSteps(const Args& args) {
  const std::string usage = "tandem steps [LOG_DIR]: loss, metric and speed of the last steps\n";
  return RunBody("steps", usage + kWhere,
                 AccessFlags({{"last", "", "N", "number of steps to show (default 10)"}}), args,
                 Steps);
}

}  // namespace tandem::deploy
