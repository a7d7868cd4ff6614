// Writes an audit log of RPCs: the caller, the call and its outcome. Each record is one JSON object
// per line, appended to a file that only its owner can read.
//
// An example of one record, which is one line in the file:
//   {"time":"2026-11-22T02:20:00.120Z","server":"pserver 0","job":"lenet",
//    "call":"RestoreCheckpoint","caller":"spiffe://tandem/job/lenet/role/trainer",
//    "role":"trainer","proof":"certificate","peer":"ipv4:127.0.0.1:41002",
//    "outcome":"PERMISSION_DENIED","count":1,"reason":"..."}
//
// Records with the same caller, proof, host, call and outcome are merged. The first record is
// written immediately. The later records are written one second later as one record with their
// `count`. So a job with a thousand pushes per second writes one line per second for the pushes.
// The number of lines about rejected calls is limited, so a flood of rejected calls cannot fill the
// disk.
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
  std::string call;    // name of the RPC, such as "Push"
  std::string caller;  // identity URI in the caller's certificate; "": no certificate
  std::string role;    // role of the caller, such as "trainer"; "": unknown
  std::string proof;   // how the caller proved its identity: "certificate", "secret" or "nothing"
  std::string peer;    // address of the caller, as gRPC writes it
  Status outcome;
};

struct AuditLogOptions {
  std::string path;
  std::string server;  // name of the process that writes the log, such as "pserver 0"
  // When the file PATH reaches this size, PATH is renamed to PATH.1, PATH.1 to PATH.2, and so on.
  int64_t bytes_max = int64_t{16} << 20;
  int files_max = 8;  // number of files including PATH; a rotation removes the oldest file
  Duration window = std::chrono::seconds(1);
};

// Writes records to the audit log. Thread-safe.
class AuditLog {
 public:
  // Opens the log for appending, and removes access rights of other users from the file. `clock`
  // and `metrics` must outlive this object. `metrics` counts records that could not be written, for
  // example to a full disk. PERMISSION_DENIED: the file cannot be opened.
  static StatusOr<std::unique_ptr<AuditLog>> Open(AuditLogOptions options, const Clock& clock,
                                                  Metrics& metrics);
  ~AuditLog();  // writes the merged records that are not written yet

  void Add(const AuditRecord& record);

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string, int>;
  struct Repeated {
    AuditRecord last;
    uint64_t count = 0;  // number of records since the last line
    Time line{};         // time of the last line
  };
  // A record that must be written. The audit log collects entries under mu_ and writes them under
  // file_mu_. So a slow disk does not delay a call whose record is only counted.
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
  // Moves the merged records whose window is over to `entries`. If `all`, moves every merged
  // record.
  void TakeRepeated(bool all, Entries* entries) TD_REQUIRES(mu_);
  void Tick();

  const AuditLogOptions options_;
  const Clock& clock_;
  Counter& lost_;
  Mutex file_mu_;  // no thread holds file_mu_ and mu_ together
  Fd file_ TD_GUARDED_BY(file_mu_);
  int64_t bytes_ TD_GUARDED_BY(file_mu_) = 0;
  // State for lines about rejected calls: the bytes of these lines in the current file, their rate
  // limit, and the number of rejected calls that got no line since the last such line.
  int64_t refused_bytes_ TD_GUARDED_BY(file_mu_) = 0;
  TokenBucket refused_pace_ TD_GUARDED_BY(file_mu_);
  uint64_t left_out_ TD_GUARDED_BY(file_mu_) = 0;

  Mutex mu_;
  std::map<Key, Repeated> repeated_ TD_GUARDED_BY(mu_);
  bool ending_ TD_GUARDED_BY(mu_) = false;
  CondVar ending_changed_;
  std::thread ticker_;  // writes the merged records whose window is over
};

}  // namespace tandem::rpc
