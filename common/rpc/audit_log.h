// Who did what over RPC, and what came of it: one JSON object a line, appended to a file that only
// its owner reads.
//
//   {"time":"2026-11-22T02:20:00.120Z","server":"pserver
//   0","job":"lenet","call":"RestoreCheckpoint",
//    "caller":"spiffe://tandem/job/lenet/role/trainer","role":"trainer","proof":"certificate",
//    "peer":"ipv4:127.0.0.1:41002","outcome":"PERMISSION_DENIED","count":1,"reason":"..."}
//
// Of equal records (same caller, host, call and outcome) the first is written at once; how many
// followed is written a second later, as one with their `count`. So a job that pushes a thousand
// times a second writes one line a second for it, and a flood of refused calls fills no disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/token_bucket.h"

namespace tandem::rpc {

struct AuditRecord {
  std::string job;
  std::string call;    // "Push"
  std::string caller;  // URI of the certificate; "" without one
  std::string role;    // "trainer"; "" where none is known
  std::string proof;   // by what the caller showed who it is: certificate, secret, nothing
  std::string peer;    // address, as gRPC writes it
  Status outcome;
};

struct AuditLogOptions {
  std::string path;
  std::string server;                     // who writes: "pserver 0"
  int64_t bytes_max = int64_t{16} << 20;  // then the file becomes PATH.1, that one PATH.2, ...
  int files_max = 8;                      // with PATH itself; the oldest is removed
  Duration window = std::chrono::seconds(1);
};

// Thread-safe.
class AuditLog {
 public:
  // Appends to what is there. PERMISSION_DENIED when the file cannot be opened; a file that others
  // may read is made to be ours alone.
  // `clock` and `metrics` must outlive it; the latter count records that a full disk did not take.
  static StatusOr<std::unique_ptr<AuditLog>> Open(AuditLogOptions options, const Clock& clock,
                                                  Metrics& metrics);
  ~AuditLog();  // writes what has been counted

  void Add(const AuditRecord& record);

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string, int>;
  struct Repeated {
    AuditRecord last;
    uint64_t count = 0;  // since the last line
    Time line{};         // when that was written
  };
  // Becomes a line. Lines are collected under mu_ and written under file_mu_: a slow disk holds up
  // no call that needs no line.
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
  // Those whose second is over; all of them with `all`.
  void TakeRepeated(bool all, Entries* entries) TD_REQUIRES(mu_);
  void Tick();

  const AuditLogOptions options_;
  const Clock& clock_;
  Counter& lost_;
  Mutex file_mu_;  // never taken with mu_
  Fd file_ TD_GUARDED_BY(file_mu_);
  int64_t bytes_ TD_GUARDED_BY(file_mu_) = 0;
  // Lines of refused calls: those in the file, their pace, and calls that got no line since.
  int64_t refused_bytes_ TD_GUARDED_BY(file_mu_) = 0;
  TokenBucket refused_pace_ TD_GUARDED_BY(file_mu_);
  uint64_t left_out_ TD_GUARDED_BY(file_mu_) = 0;

  Mutex mu_;
  std::map<Key, Repeated> repeated_ TD_GUARDED_BY(mu_);
  bool ending_ TD_GUARDED_BY(mu_) = false;
  CondVar ending_changed_;
  std::thread ticker_;  // writes what has been counted when no call comes that would
};

}  // namespace tandem::rpc
