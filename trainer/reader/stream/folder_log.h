// A growing directory of text files as a log of records.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/reader/input/record_log.h"
#include "trainer/reader/input/wait_switch.h"
#include "trainer/reader/stream/folder_index.h"
#include "trainer/reader/stream/line_cursor.h"

namespace tandem::reader {

struct FolderLogOptions {
  std::string folder;
  LogShare share;
  Duration wait_log = std::chrono::seconds(30);  // time between two log lines of a waiting reader
  bool together = true;                          // all ranks are at the same step
};

// The log has the records of all files, in the order of the files' names. A global batch has
// consecutive records. Each rank reads all files and uses its share.
//
// A file is complete when it gets its name, and names ascend. Rank 0 writes the index of the files
// that it has read, so that files whose records were trained may be removed.
class FolderLog final : public RecordLog {
 public:
  using IsRecord = std::function<bool(std::string_view line, bool first)>;

  // NOT_FOUND: there is no such directory. DATA_LOSS: its index is damaged.
  static StatusOr<std::unique_ptr<FolderLog>> Open(const FolderLogOptions& options,
                                                   IsRecord is_record);

  Status Begin(const std::string& job, uint64_t step) override;
  Status Read(uint64_t step, uint64_t first, uint64_t count, LogLines* lines) override;
  void EndWaits() override { waits_.End(); }
  void AllowWaits() override { waits_.Allow(); }
  int64_t newest_time_ms() const override { return newest_time_ms_.load(); }
  const char* part() const override { return "file"; }
  std::string Describe() const override;

 private:
  FolderLog(const FolderLogOptions& options, IsRecord is_record)
      : options_(options),
        is_record_(std::move(is_record)),
        index_(options.folder, options.share.rank == 0) {}

  // Makes `number` the next record. The file of the record is open after OK, or is the next file.
  Status Seek(uint64_t number);
  // `bytes`: size of the file according to the index; -1: the index does not have the file.
  Status OpenFile(const std::string& name, uint64_t first, int64_t bytes);
  // Opens the file with record `number`. If the index has no such file, opens the first file that
  // is not in the index, and blocks until there is one.
  Status OpenFileOf(uint64_t number);
  // Returns the name of this file; nullopt: there is none yet. DATA_LOSS: a file has appeared whose
  // name comes before the names of files that were read.
  StatusOr<std::optional<std::string>> NextName();
  StatusOr<std::vector<std::string>> ListNames() const;
  Status WaitForFile(RecordWait* wait);
  // Reads the next record into `line`, from the next files if the open one has ended.
  Status Next(LineCursor::Line* line);
  Status FinishFile();

  const FolderLogOptions options_;
  const IsRecord is_record_;
  FolderIndex index_;
  WaitSwitch waits_;
  std::optional<LineCursor> cursor_;           // nullopt: no file is open
  std::string name_;                           // name of the open file
  std::shared_ptr<const std::string> source_;  // path of the open file
  uint64_t first_ = 0, next_ = 0;              // first record of the open file, and the next record
  bool at_start_ = false;                      // no line of the open file was read
  // Modification time of the directory when the index had all of its files.
  int64_t listed_mtime_ns_ = -1;
  int64_t file_time_ms_ = 0;  // modification time of the open file, if it is plausible
  std::atomic<int64_t> newest_time_ms_{0};
};

}  // namespace tandem::reader
