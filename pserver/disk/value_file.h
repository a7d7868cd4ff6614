// The values of a checkpoint in a file of their own: record behind record, each with its length (8
// bytes) and the CRC32C of length and content (4) in front, little-endian. In a store for many
// small records each value is copied several times on its way to the disk and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/base/fd.h"
#include "common/base/status.h"
#include "pserver/disk/checkpoint_throttle.h"

namespace tandem {

// Not thread-safe. Past the page cache where the file system allows that: it would cost a copy and
// fresh pages, and threads of the kernel that give way to nobody.
class ValueWriter {
 public:
  // Makes the file, empty; replaces another one. `pace`, which must outlive this: Add rests by it;
  // null: never.
  static StatusOr<ValueWriter> Create(const std::string& path, CheckpointThrottle* pace);
  Status Add(const void* content, size_t bytes);
  // Returns once all of it is on the disk, with the file's name in its folder. Gives the CRC32C
  // over the checksums of the records, in their order.
  StatusOr<uint32_t> Finish();

 private:
  using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

  ValueWriter(std::string path, Fd file, Memory staged, CheckpointThrottle* pace)
      : path_(std::move(path)), file_(std::move(file)), staged_(std::move(staged)), pace_(pace) {}
  Status Append(const void* data, size_t bytes);
  // The first `bytes` of what is staged.
  Status WriteOut(size_t bytes);

  std::string path_;
  Fd file_;
  Memory staged_;       // of blocks of the disk
  size_t filled_ = 0;   // of it
  uint64_t bytes_ = 0;  // of the file
  uint32_t sum_ = 0;
  CheckpointThrottle::File pace_;
};

// Not thread-safe. Errors name the file: DATA_LOSS for what is missing or damaged.
class ValueReader {
 public:
  static StatusOr<ValueReader> Open(const std::string& path);
  // The length of the next record; so many bytes are in the file.
  StatusOr<size_t> Next();
  // Its content. REQUIRES: `to` has room for what Next gave.
  Status Read(void* to);
  // What ValueWriter::Finish gave. DATA_LOSS when there is more behind the last record.
  StatusOr<uint32_t> Finish();

 private:
  ValueReader(std::string path, Fd file, uint64_t bytes)
      : path_(std::move(path)), file_(std::move(file)), left_(bytes) {}
  Status Fill(void* to, size_t bytes);
  Status Damaged(const char* what) const;

  std::string path_;
  Fd file_;
  uint64_t left_;         // bytes of the file
  uint64_t records_ = 0;  // begun
  size_t length_ = 0;     // of the last of them
  uint32_t expected_ = 0;
  uint32_t sum_ = 0;
};

}  // namespace tandem
