#include "common/rpc/audit_log.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "common/base/check.h"

namespace tandem::rpc {
namespace {

// Maximum number of different merged records.
constexpr size_t kRepeatedMax = 4096;
constexpr size_t kReasonBytesMax = 256;
// Rate limit of lines about rejected calls, for all callers together.
constexpr double kRefusedBurst = 128, kRefusedPerSecond = 16;
constexpr int64_t kRefusedShare = 4;  // lines about rejected calls get a quarter of each file

std::string WallClock() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const int64_t millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  return absl::StrFormat("%s.%03dZ", text, millis);
}

// Returns a peer address without its port, because the port differs between connections of a host.
// Example: "ipv4:127.0.0.1:41002" becomes "ipv4:127.0.0.1".
std::string HostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

std::string Numbered(const std::string& path, int number) {
  return number == 0 ? path : path + "." + std::to_string(number);
}

}  // namespace

StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(AuditLogOptions options, const Clock& clock,
                                                   Metrics& metrics) {
  auto log = std::unique_ptr<AuditLog>(new AuditLog(std::move(options), clock, metrics));
  {
    MutexLock lock(log->file_mu_);
    TD_RETURN_IF_ERROR(log->OpenFile());
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  log->ticker_ = std::thread([raw = log.get()] { raw->Tick(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return log;
}

AuditLog::AuditLog(AuditLogOptions options, const Clock& clock, Metrics& metrics)
    : options_(std::move(options)),
      clock_(clock),
      lost_(metrics.GetCounter("tandem_audit_lost_total",
                               "Records that could not be written to the audit log")),
      refused_pace_(kRefusedBurst, kRefusedPerSecond) {}

AuditLog::~AuditLog() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    ending_changed_.NotifyAll();
  }
  if (ticker_.joinable()) ticker_.join();
  Entries entries;
  {
    MutexLock lock(mu_);
    TakeRepeated(/*all=*/true, &entries);
  }
  Write(entries);
}

void AuditLog::Tick() {
  for (bool ending = false; !ending;) {
    Entries entries;
    {
      MutexLock lock(mu_);
      if (!ending_) ending_changed_.WaitUntil(mu_, SteadyNow() + options_.window);
      ending = ending_;
      TakeRepeated(/*all=*/false, &entries);
    }
    Write(entries);
  }
}

Status AuditLog::OpenFile() {
  const int fd = open(options_.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) {
    return PermissionDenied("cannot write audit log %s: %s [TD2106]", options_.path,
                            ErrnoText(errno));
  }
  file_ = Fd(fd);
  struct stat info {};
  if (fstat(fd, &info) != 0 || fchmod(fd, 0600) != 0) {
    return PermissionDenied(
        "cannot open audit log %s: %s [TD2113]; hint: name a file that this user owns",
        options_.path, ErrnoText(errno));
  }
  bytes_ = info.st_size;
  refused_bytes_ = 0;
  return OkStatus();
}

void AuditLog::Rotate() {
  for (int i = options_.files_max - 1; i > 0; --i) {
    std::rename(Numbered(options_.path, i - 1).c_str(), Numbered(options_.path, i).c_str());
  }
  // If the new file cannot be opened, further lines are appended to the current file.
  const Status opened = OpenFile();
  LOG_IF(WARNING, !opened.ok()) << opened.message();
}

void AuditLog::Add(const AuditRecord& record) {
  const Key key = {record.call, record.caller, record.proof, HostOf(record.peer),
                   static_cast<int>(record.outcome.code())};
  Entries entries;
  {
    MutexLock lock(mu_);
    const auto [it, first] = repeated_.try_emplace(key);
    if (first) {
      it->second.line = clock_.Now();
      entries.push_back({record, 1, WallClock()});
    } else {
      it->second.last = record;
      ++it->second.count;
    }
    if (repeated_.size() >= kRepeatedMax) TakeRepeated(/*all=*/true, &entries);
  }
  Write(entries);
}

void AuditLog::TakeRepeated(bool all, Entries* entries) {
  const Time now = clock_.Now();
  for (auto it = repeated_.begin(); it != repeated_.end();) {
    Repeated& r = it->second;
    if (!all && now - r.line < options_.window) {
      ++it;
      continue;
    }
    // Removes a record that was not repeated in the last window. If the record occurs later, Add
    // writes it immediately.
    const bool stays = !all && r.count > 0;
    if (r.count > 0) entries->push_back({r.last, r.count, WallClock()});
    r.count = 0;
    r.line = now;
    it = stays ? std::next(it) : repeated_.erase(it);
  }
}

// Returns whether a line about a rejected call may be written now. Such a line never causes a
// rotation, because a rotation removes lines about calls that changed something.
bool AuditLog::HasRoomForRefused(int64_t size) {
  return refused_bytes_ + size <= options_.bytes_max / kRefusedShare &&
         bytes_ + size <= options_.bytes_max && refused_pace_.Take(clock_.Now());
}

void AuditLog::Write(const Entries& entries) {
  if (entries.empty()) return;
  MutexLock lock(file_mu_);
  for (const Entry& entry : entries) WriteLine(entry);
}

void AuditLog::WriteLine(const Entry& entry) {
  const AuditRecord& record = entry.record;
  nlohmann::ordered_json line = {{"time", entry.time},
                                 {"server", options_.server},
                                 {"job", record.job},
                                 {"call", record.call},
                                 {"caller", record.caller},
                                 {"role", record.role},
                                 {"proof", record.proof},
                                 {"peer", record.peer},
                                 {"outcome", absl::StatusCodeToString(record.outcome.code())},
                                 {"count", entry.count}};
  const bool refused = !record.outcome.ok();
  if (refused) line["reason"] = std::string(record.outcome.message().substr(0, kReasonBytesMax));
  if (refused && left_out_ > 0) line["left_out"] = left_out_;
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const auto size = static_cast<int64_t>(text.size());
  if (refused && !HasRoomForRefused(size)) {
    left_out_ += entry.count;
    return;
  }
  if (bytes_ > 0 && bytes_ + size > options_.bytes_max) Rotate();
  const ssize_t written = write(file_.get(), text.data(), text.size());
  const int error = errno;
  if (written == size) {
    bytes_ += size;
    if (refused) refused_bytes_ += size;
    if (refused) left_out_ = 0;
    return;
  }
  // Removes an incomplete line, because it would make the next line unreadable.
  const bool cut = written <= 0 || ftruncate(file_.get(), bytes_) == 0;
  lost_.Add(1);
  LOG_EVERY_T(WARNING, 1.0) << "audit log " << options_.path << ": "
                            << (written < 0 ? ErrnoText(error) : "the disk is full")
                            << (cut ? "" : "; the last line is incomplete");
}

}  // namespace tandem::rpc
