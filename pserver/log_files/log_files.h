// Writes an update log to files, and removes files whose entries are needed no more.
//
// A process appends to its own files only: the first append after Open begins a file. A file that a
// killed process left with an incomplete frame at its end is therefore never changed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "pserver/log_files/log_file.h"

namespace tandem::pserver {

// An entry to be written.
struct LogPayload {
  uint64_t number = 0;
  // The bytes of the entry, which must stay unchanged during the call. The first kPayloadHeadBytes
  // bytes are in the first piece.
  std::vector<std::string_view> pieces;
  uint64_t bytes() const;
};

// The files of the log of one store. Thread-safe after Open. Blocks for the disk.
class LogFiles {
 public:
  // `file_bytes`: size of a file at which the next one begins.
  LogFiles(std::string dir, uint64_t file_bytes);

  // Finds the files of log `generation`, removes those of all others, and makes all entries
  // durable that an earlier process wrote.
  Status Open(uint64_t generation);
  // Appends entries in one write and returns the written bytes; all have the time `time_us`. After
  // OK, they survive the death of the process and, with `sync`, of the machine. The numbers must be
  // above those of all entries of this log. RESOURCE_EXHAUSTED: the disk is full; no entry was
  // added. After any other error, all calls but Read fail, because data may be lost.
  StatusOr<size_t> Append(std::span<const LogPayload> entries, int64_t time_us, bool sync);
  // Makes all appended entries durable. Returns the number of the last one; 0: none was appended
  // since Open and Begin.
  StatusOr<uint64_t> Sync();
  // Calls `take` for the entries with the number `first` or a later one, by ascending numbers.
  // Returns its first error. Other calls may run meanwhile. Other errors: as in LogFileReader.
  Status Read(uint64_t first, const std::function<Status(const LogFrame&)>& take) const;

  // Returns the number of the first entry to keep if the entries below `needed` are needed no more,
  // and at most about `bytes` bytes of them are kept. Returns at most `needed`; 0: no file has
  // such entries.
  uint64_t FirstKept(uint64_t needed, uint64_t bytes) const;
  // Removes the files all of whose entries are below `first`.
  void RemoveBelow(uint64_t first);
  // Removes all files. The next entries belong to log `generation`, and may have any number.
  void Begin(uint64_t generation);
  uint64_t generation() const;

 private:
  struct File {
    std::string path;
    uint64_t first = 0;
    uint64_t bytes = 0;  // size, without a failed write
    // Offsets of some frames of a file that this process wrote, by number.
    std::vector<std::pair<uint64_t, uint64_t>> index;
    bool own = false;  // this process wrote it
  };
  // Begins a file with entry `first`.
  Status BeginFile(uint64_t first) TD_REQUIRES(write_mu_);
  // Writes the pieces to the current file. Returns an errno; 0: everything is written.
  int WritePieces(std::span<const std::string_view> pieces) TD_REQUIRES(write_mu_);
  // Removes what a failed write left, whose errno was `error`.
  Status AfterFailedWrite(int error) TD_REQUIRES(write_mu_);
  Status SyncWritten() TD_REQUIRES(write_mu_);
  // Starts the transfer of the current file to the disk, without waiting for it.
  void StartTransfer(uint64_t size) TD_REQUIRES(write_mu_);
  // Remembers an error after which the log writes nothing more.
  Status Fail(Status status) TD_REQUIRES(write_mu_);
  std::string Text(const char* what) const;  // "WHAT the write-ahead log of DIR"

  const std::string dir_;
  const uint64_t file_bytes_;
  mutable Mutex write_mu_;  // acquired before mu_
  Status failed_ TD_GUARDED_BY(write_mu_);
  Fd current_
      TD_GUARDED_BY(write_mu_);  // the last file, open for appending; invalid: there is none
  uint64_t transferred_ TD_GUARDED_BY(write_mu_) = 0;  // offset up to which the transfer started
  std::vector<Fd> unsynced_ TD_GUARDED_BY(write_mu_);  // older files with entries not yet durable
  bool named_ TD_GUARDED_BY(write_mu_) = true;         // the names of all files are durable
  uint64_t last_ TD_GUARDED_BY(write_mu_) = 0;         // number of the last appended entry
  mutable Mutex mu_;
  uint64_t generation_ TD_GUARDED_BY(mu_) = 0;
  std::vector<File> files_ TD_GUARDED_BY(mu_);  // by ascending numbers
};

}  // namespace tandem::pserver
