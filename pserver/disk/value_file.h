// A file with the values of a checkpoint. Each record begins with its length (8 bytes) and the
// CRC32C of length and content (4 bytes), both little-endian. The values are not in RocksDB,
// because RocksDB would copy each value several times at each write or read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/os/fd.h"
#include "pserver/disk/checkpoint_throttle.h"

namespace tandem::pserver {

// Writes a value file. Not thread-safe. Bypasses the page cache (O_DIRECT) if the file system
// allows that. The page cache would cost a copy and new pages, and its kernel threads would take
// CPU time from trainers.
class ValueWriter {
 public:
  // Creates the file, or empties an existing file. `pace` limits the write rate and must outlive
  // this object; null: unlimited.
  static StatusOr<ValueWriter> Create(const std::string& path, CheckpointThrottle* pace);
  Status Add(const void* content, size_t bytes);
  // Writes the last bytes, then syncs the file and its directory. Returns the CRC32C over the
  // checksums of all records in file order.
  StatusOr<uint32_t> Finish();

 private:
  using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

  ValueWriter(std::string path, Fd file, Memory staged, CheckpointThrottle* pace)
      : path_(std::move(path)), file_(std::move(file)), staged_(std::move(staged)), pace_(pace) {}
  Status Append(const void* data, size_t bytes);
  // Writes the first `bytes` bytes of staged_ to the file.
  Status WriteOut(size_t bytes);

  std::string path_;
  Fd file_;
  Memory staged_;       // aligned buffer; its first filled_ bytes are not written yet
  size_t filled_ = 0;   // number of bytes in staged_ that are not written yet
  uint64_t bytes_ = 0;  // bytes of the file, including those in staged_
  uint32_t sum_ = 0;
  CheckpointThrottle::File pace_;
};

// Reads a value file. Not thread-safe. DATA_LOSS: data is missing or damaged (the message names the
// file).
class ValueReader {
 public:
  static StatusOr<ValueReader> Open(const std::string& path);
  // Begins the next record and returns the length of its content in bytes. The rest of the file has
  // at least this length.
  StatusOr<size_t> Next();
  // Reads the content of the current record to `to`. REQUIRES: Next was called, and `to` has room
  // for the length that Next returned.
  Status Read(void* to);
  // Ends the reading. Returns the checksum of the file, which equals the result of
  // ValueWriter::Finish. DATA_LOSS: there is data after the last record.
  StatusOr<uint32_t> Finish();

 private:
  ValueReader(std::string path, Fd file, uint64_t bytes)
      : path_(std::move(path)), file_(std::move(file)), left_(bytes) {}
  Status Fill(void* to, size_t bytes);
  Status Damaged(const char* what) const;

  std::string path_;
  Fd file_;
  uint64_t left_;         // bytes of the file that are not read yet
  uint64_t records_ = 0;  // number of calls of Next
  size_t length_ = 0;     // length of the current record's content in bytes
  uint32_t expected_ = 0;
  uint32_t sum_ = 0;
};

}  // namespace tandem::pserver
