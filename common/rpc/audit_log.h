// Writes an audit log of RPCs: the caller, the call and its outcome. Each record is one JSON object
// per line, appended to a file that only its owner can read.
//
//   {"time":"2026-11-22T02:20:00.120Z","server":"pserver 0","job":"lenet",
//    "call":"RestoreCheckpoint","caller":"spiffe://tandem/job/lenet/role/trainer",
//    "role":"trainer","proof":"certificate","peer":"ipv4:127.0.0.1:41002",
//    "outcome":"PERMISSION_DENIED","count":1,"reason":"..."}
//
// Records with the same caller, host, call and outcome are merged. The first is written
// immediately; the others are written one second later as one record with their `count`.
// So a job with a thousand pushes per second writes one line per second for them. A flood of
// refused calls cannot fill the disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "common/rpc/token_bucket.h"

namespace tandem::rpc {

struct AuditRecord {
  std::string job;
  std::string call;    // "Push"
  std::string caller;  // URI of the certificate; "": no certificate
  std::string role;    // "trainer"; "": unknown
  std::string proof;   // how the caller proved its identity: certificate, secret, nothing
  std::string peer;    // address, as gRPC writes it
  Status outcome;
};

struct AuditLogOptions {
  std::string path;
  std::string server;  // the process that writes the log: "pserver 0"
  // At this size PATH is renamed to PATH.1, PATH.1 to PATH.2, ...
  int64_t bytes_max = int64_t{16} << 20;
  int files_max = 8;  // including PATH itself; the oldest file is removed
  Duration window = std::chrono::seconds(1);
};

// Thread-safe.
class AuditLog {
 public:
  // Appends to an existing file and removes the access rights of other users from it.
  // `clock` and `metrics` must outlive this object. `metrics` counts the records that could not be
  // written to a full disk.
  // PERMISSION_DENIED: the file cannot be opened.
  static StatusOr<std::unique_ptr<AuditLog>> Open(AuditLogOptions options, const Clock& clock,
                                                  Metrics& metrics);
  ~AuditLog();  // writes the counted records

  void Add(const AuditRecord& record);

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string, int>;
  struct Repeated {
    AuditRecord last;
    uint64_t count = 0;  // since the last line
    Time line{};         // time of the last line
  };
  // A record to write. Entries are collected under mu_ and written under file_mu_. So a slow disk
  // does not delay calls that write no line.
  struct Entry {
    AuditRecord record;
    uint64_t count;
    std::string time;
  };
  using Entries = std::vector<Entry>;

  AuditLog(AuditLogOptions options, const Clock& clock, Metrics& metrics);
  Status OpenFile() TD_REQUIRES(file_mu_);
  void Rotate() TD_REQUIRES(file_mu_);
  bool HasRoomForRefused(int64_t size) TD_REQUIRES(file_mu_);
  void WriteLine(const Entry& entry) TD_REQUIRES(file_mu_);
  void Write(const Entries& entries);
  // Moves the repeated records whose window is over to `entries`; with `all`, every repeated
  // record.
  void TakeRepeated(bool all, Entries* entries) TD_REQUIRES(mu_);
  void Tick();

  const AuditLogOptions options_;
  const Clock& clock_;
  Counter& lost_;
  Mutex file_mu_;  // never held together with mu_
  Fd file_ TD_GUARDED_BY(file_mu_);
  int64_t bytes_ TD_GUARDED_BY(file_mu_) = 0;
  // Refused calls: bytes of their lines in the file, their rate limit, and calls without a line
  // since the last one.
  int64_t refused_bytes_ TD_GUARDED_BY(file_mu_) = 0;
  TokenBucket refused_pace_ TD_GUARDED_BY(file_mu_);
  uint64_t left_out_ TD_GUARDED_BY(file_mu_) = 0;

  Mutex mu_;
  std::map<Key, Repeated> repeated_ TD_GUARDED_BY(mu_);
  bool ending_ TD_GUARDED_BY(mu_) = false;
  CondVar ending_changed_;
  std::thread ticker_;  // writes counted records when no call triggers it
};

}  // namespace tandem::rpc
