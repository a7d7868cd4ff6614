// The complete files of a directory of records, in order, with the numbers of their records.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

// The index of a directory is the file ".tandem-index" in it. A later process needs the index if
// files have been removed: the numbers of all later records follow from it. Several jobs may write
// the index of one directory. Not thread-safe.
class FolderIndex {
 public:
  struct File {
    std::string name;
    uint64_t bytes = 0;
    uint64_t first = 0, records = 0;  // number of its first record, and number of its records
  };

  // `writes`: Add also writes the file. One process of a job writes it.
  FolderIndex(std::string folder, bool writes) : folder_(std::move(folder)), writes_(writes) {}

  // Reads the file if there is one. DATA_LOSS: the file is damaged (the message names its line).
  Status Load();
  // Reads the files that other processes have added since then.
  Status Refresh();
  // Adds the next file. Durable after OK, if this process writes the file. DATA_LOSS: another
  // process has added a different file.
  Status Add(const std::string& name, uint64_t bytes, uint64_t records);

  const std::vector<File>& files() const { return files_; }
  uint64_t records() const {
    return files_.empty() ? 0 : files_.back().first + files_.back().records;
  }
  // Returns the position in files() of the file with this record; files().size(): no file has it.
  size_t FileOf(uint64_t record) const;

 private:
  std::string path() const { return folder_ + "/.tandem-index"; }

  const std::string folder_;
  const bool writes_;
  std::vector<File> files_;
  uint64_t loaded_ = 0;  // size of the file when it was read, in bytes
};

}  // namespace tandem::reader
