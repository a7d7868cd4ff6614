#include "deploy/launch/job_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/require.h"
#include "common/os/own_files.h"
#include "deploy/launch/options/endpoints.h"
#include "deploy/launch/options/host_options.h"

namespace tandem::deploy {
namespace {

using nlohmann::json;

constexpr uint64_t kRecordBytesMax = 64 << 20;
constexpr uint64_t kEventsBytesMax = uint64_t{1} << 30;

// Returns the start time of a process in clock ticks since boot, field 22 of /proc/PID/stat
// (proc(5)). 0: there is no such process, or it is a zombie.
uint64_t StartOf(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  // The file has one line. The read fails if the process ends after the open.
  std::string text;
  std::getline(file, text);
  // The name of the process is in brackets and may contain any characters. Therefore the last ")"
  // ends the name.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string state, skipped;
  rest >> state;
  if (state == "Z" || state == "X") return 0;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  uint64_t start = 0;
  rest >> start;
  return start;
}

// Returns JobRecord::replicas, or with `redis` JobRecord::redis.
std::vector<std::string> ReplicaLists(const LaunchPlan& plan, bool redis) {
  std::vector<std::string> lists(static_cast<size_t>(plan.replicas));
  for (const ProcessPlan& p : plan.processes) {
    if (p.role != Role::kReplica) continue;
    if (redis && p.resp_port == 0) return {};
    std::string& list = lists[static_cast<size_t>(p.replica)];
    absl::StrAppend(&list, list.empty() ? "" : ",",
                    redis ? absl::StrFormat("127.0.0.1:%d", p.resp_port) : p.endpoint.Text());
  }
  return lists;
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  return path.empty() ? path : std::filesystem::absolute(path, error).string();
}

}  // namespace

std::string WallClockText() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Status WriteJobRecord(const LaunchPlan& plan) {
  TD_REQUIRE(!plan.log_dir.empty());
  json processes = json::array();
  for (const ProcessPlan& p : plan.processes) {
    processes.push_back({{"role", RoleName(p.role)},
                         {"rank", p.rank},
                         {"endpoint", p.endpoint.port == 0 ? "" : p.endpoint.Text()},
                         {"status_page", p.status_page},
                         {"log_file", Absolute(p.log_file)}});
    if (p.member >= 0) processes.back()["member"] = p.member;
    if (p.replica >= 0) processes.back()["replica"] = p.replica;
  }
  const json whole = {{"job", plan.job_name},
                      {"mode", ModeName(plan.mode)},
                      {"pservers", plan.pservers},
                      {"replicas", ReplicaLists(plan, /*redis=*/false)},
                      {"redis", ReplicaLists(plan, /*redis=*/true)},
                      {"launcher_pid", getpid()},
                      {"launcher_start", StartOf(getpid())},
                      {"host", HostName()},
                      {"secret_file", Absolute(plan.secret_file)},
                      {"insecure_allow_network", plan.insecure_allow_network},
                      {"tls_dir", Absolute(plan.tls.dir)},
                      {"processes", processes}};
  const std::string path = plan.log_dir + "/job.json";
  TD_RETURN_IF_ERROR(
      WriteOwnFile(path, whole.dump(2, ' ', false, json::error_handler_t::replace) + "\n"));
  return WriteOwnFile(plan.log_dir + "/events.jsonl", "");
}

std::string JobDirOf(const std::string& log_dir) {
  std::error_code error;
  if (std::filesystem::exists(log_dir + "/job.json", error)) return log_dir;
  std::string first;
  for (int host = 0; host < kHostsMax; ++host) {
    std::string dir = absl::StrFormat("%s/host-%d", log_dir, host);
    if (!std::filesystem::exists(dir + "/job.json", error)) continue;
    const StatusOr<JobRecord> record = ReadJobRecord(dir);
    if (record.ok() && LauncherRuns(*record)) return dir;
    if (first.empty()) first = dir;
  }
  return first.empty() ? log_dir : first;
}

StatusOr<JobRecord> ReadJobRecord(const std::string& log_dir) {
  const std::string path = log_dir + "/job.json";
  const Status own = OpenOwnDir(log_dir, OwnRule::kUser).status();
  const StatusOr<std::string> text =
      own.ok() ? ReadOwnFile(path, kRecordBytesMax, OwnRule::kUser) : own;
  if (text.status().code() == StatusCode::kNotFound) {
    return NotFound(
        "file %s does not exist [TD7002]; hint: name the log directory of the job (--log_dir of "
        "tandemrun, by default log-JOB), or use --pservers=HOST:PORT,...",
        path);
  }
  TD_RETURN_IF_ERROR(text.status());
  const json whole = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (whole.is_discarded())
    return DataLoss("%s is not a file of tandemrun: the content is not JSON [TD7002]", path);
  JobRecord record;
  // Files of other versions may have fewer or more fields. If a field has a wrong type, the JSON
  // library throws an exception.
  try {
    record.job = whole.at("job").get<std::string>();
    record.mode = whole.at("mode").get<std::string>();
    record.pservers = whole.value("pservers", "");
    record.replicas = whole.value("replicas", std::vector<std::string>());
    record.redis = whole.value("redis", std::vector<std::string>());
    record.launcher_pid = whole.value("launcher_pid", int64_t{0});
    record.launcher_start = whole.value("launcher_start", uint64_t{0});
    record.host = whole.value("host", "");
    record.secret_file = whole.value("secret_file", "");
    record.insecure_allow_network = whole.value("insecure_allow_network", false);
    record.tls_dir = whole.value("tls_dir", "");
    for (const json& p : whole.at("processes")) {
      record.processes.push_back({p.at("role").get<std::string>(), p.at("rank").get<int>(),
                                  p.value("member", -1), p.value("replica", -1),
                                  p.value("endpoint", ""), p.value("status_page", ""),
                                  p.value("log_file", "")});
    }
  } catch (const json::exception& error) {
    return DataLoss("%s is not a file of tandemrun: %s [TD7002]", path, error.what());
  }
  return record;
}

bool LauncherRuns(const JobRecord& record) {
  return record.launcher_pid > 0 && record.launcher_start != 0 &&
         StartOf(record.launcher_pid) == record.launcher_start;
}

Status SignalLauncher(const JobRecord& record, int signal) {
  TD_REQUIRE(signal > 0);
  // This descriptor refers to the same process while it is open, even if the pid is reused. The
  // code uses syscall() because sys/pidfd.h of glibc 2.36 declares no C functions for C++.
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, record.launcher_pid, 0)));
  if (!process.valid() || !LauncherRuns(record)) {
    return FailedPrecondition("tandemrun (pid %d) of job %s is not running [TD7003]",
                              record.launcher_pid, record.job);
  }
  struct stat info {};
  const std::string place = "/proc/" + std::to_string(record.launcher_pid);
  if (stat(place.c_str(), &info) == 0 && info.st_uid != geteuid()) {
    return PermissionDenied(
        "process %d was not signalled: the process belongs to user %d, expected user %d (job.json "
        "of job %s names this process) [TD6028]; hint: run the command as the user who started the "
        "job",
        record.launcher_pid, info.st_uid, geteuid(), record.job);
  }
  if (syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0) return OkStatus();
  return PermissionDenied("cannot signal tandemrun (pid %d): %s [TD6028]", record.launcher_pid,
                          ErrnoText(errno));
}

Status CheckDirFree(const std::string& log_dir) {
  const StatusOr<JobRecord> record = ReadJobRecord(log_dir);
  if (record.status().code() == StatusCode::kPermissionDenied) return record.status();
  if (!record.ok() || record->launcher_pid == getpid() || !LauncherRuns(*record)) return OkStatus();
  if (!CheckNotOver(log_dir, *record).ok()) return OkStatus();
  return FailedPrecondition(
      "job %s still runs in %s (tandemrun, pid %d) [TD7011]; hint: stop the job with tandem drain "
      "%s, or choose another directory with --log_dir=DIR",
      record->job, log_dir, record->launcher_pid, log_dir);
}

Status AddEvent(const std::string& log_dir, const JobEvent& event) {
  TD_REQUIRE(!event.event.empty());
  json line = {{"time", event.time.empty() ? WallClockText() : event.time}, {"event", event.event}};
  if (!event.process.empty()) line["process"] = event.process;
  if (event.pid != 0) line["pid"] = event.pid;
  if (!event.text.empty()) line["text"] = event.text;
  const std::string path = log_dir + "/events.jsonl";
  TD_ASSIGN_OR_RETURN(const Fd file,
                      OpenOwnFile(path, O_WRONLY | O_CREAT | O_APPEND, OwnRule::kUser));
  return WriteAll(file.get(), path,
                  line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

StatusOr<std::vector<JobEvent>> ReadEvents(const std::string& log_dir) {
  const std::string path = log_dir + "/events.jsonl";
  const StatusOr<std::string> whole = ReadOwnFile(path, kEventsBytesMax, OwnRule::kUser);
  if (whole.status().code() == StatusCode::kNotFound) {
    return NotFound(
        "file %s does not exist [TD7002]; hint: name the log directory of the job (--log_dir of "
        "tandemrun, by default log-JOB)",
        path);
  }
  TD_RETURN_IF_ERROR(whole.status());
  std::vector<JobEvent> events;
  for (const absl::string_view text : absl::StrSplit(*whole, '\n')) {
    const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
    // Skips an incomplete line, because the launcher may still be writing it.
    if (!line.is_object()) continue;
    const auto word = [&line](const char* name) {
      const auto it = line.find(name);
      return it != line.end() && it->is_string() ? it->get<std::string>() : std::string();
    };
    const auto pid = line.find("pid");
    events.push_back({word("time"), word("event"), word("process"),
                      pid != line.end() && pid->is_number_integer() ? pid->get<int64_t>() : 0,
                      word("text")});
  }
  return events;
}

PserverChanges ReadPserverChanges(const std::string& log_dir) {
  PserverChanges changes;
  const StatusOr<std::vector<JobEvent>> events = ReadEvents(log_dir);
  if (!events.ok()) return changes;
  for (const JobEvent& e : *events) {
    int index = 0;
    if (!absl::SimpleAtoi(absl::StripPrefix(e.process, "pserver "), &index)) continue;
    if (e.event == "drained") changes.drained.insert(index);
    if (e.event != "added") continue;
    changes.added[index] = e.text;
    changes.drained.erase(index);
  }
  return changes;
}

namespace {

// Returns whether the last event is the end of the job.
bool HasEnding(const std::vector<JobEvent>& events) {
  return !events.empty() && (events.back().event == "failed" || events.back().event == "done");
}

}  // namespace

// Checks whether the launcher was lost. The kernel kills the processes of a launcher together with
// the launcher, so this host then has no process of the job.
Status CheckNotGone(const std::string& log_dir, const JobRecord& record,
                    const std::vector<JobEvent>& events) {
  if (HasEnding(events) || record.launcher_pid <= 0 || record.host != HostName() ||
      LauncherRuns(record)) {
    return OkStatus();
  }
  return FailedPrecondition(
      "job %s of %s: tandemrun (pid %d) ended unexpectedly, and the kernel ended the processes of "
      "the job on this host [TD7013]; hint: start the job again; tandem events %s shows the last "
      "event",
      record.job, log_dir, record.launcher_pid, log_dir);
}

Status CheckNotOver(const std::string& log_dir, const JobRecord& record) {
  const StatusOr<std::vector<JobEvent>> events = ReadEvents(log_dir);
  if (!events.ok()) return OkStatus();
  if (!HasEnding(*events)) return CheckNotGone(log_dir, record, *events);
  const JobEvent& last = events->back();
  const bool failed = last.event == "failed";
  std::string how = last.text;
  if (failed) how = absl::StrFormat("%s failed: %s", last.process, last.text);
  return FailedPrecondition("job %s of %s ended at %s%s [TD7003]; hint: run tandem events %s",
                            record.job, log_dir, last.time, how.empty() ? "" : " (" + how + ")",
                            log_dir);
}

}  // namespace tandem::deploy
