// Reads the files of an update log (log_frame.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/os/fd.h"
#include "pserver/log_files/log_frame.h"

namespace tandem::pserver {

// The name of a file without its directory. `generation`: number of the log; `first`: number of the
// first entry in the file.
std::string LogFileName(uint64_t generation, uint64_t first);
// Parses a name of LogFileName. Returns false for any other name.
bool ParseLogFileName(std::string_view name, uint64_t* generation, uint64_t* first);

// A frame of a file.
struct LogFrame {
  FrameHead head;
  std::string_view payload;  // valid until the next frame is read; empty: it was not asked for
};

// A part of a file that is open for reading. The file stays readable after its removal.
struct LogFile {
  std::string path;
  uint64_t first = 0;  // number of its first entry
  Fd fd;
  uint64_t begin = 0;         // offset of a frame at which the reading begins; 0: the first frame
  uint64_t end = UINT64_MAX;  // nothing is read after this offset
};

// Opens all files of a generation, by ascending numbers. The writer may be another process, which
// runs. NOT_FOUND: it removed a file meanwhile. RESOURCE_EXHAUSTED: too many files are open.
StatusOr<std::vector<LogFile>> OpenLogFiles(const std::string& dir, uint64_t generation);

// Reads the frames of one file. Not thread-safe.
class LogFileReader {
 public:
  explicit LogFileReader(const LogFile& file);  // `file` must outlive this object
  // Reads the next frame with the number `first` or a later one. Returns false at the end, also if
  // the last frame is incomplete, because a process that is killed during a write leaves such a
  // frame. `payload` false: only the head. DATA_LOSS: the head is damaged. FAILED_PRECONDITION: a
  // newer version wrote the file. The checksum of the payload is not compared.
  StatusOr<bool> Next(uint64_t first, bool payload, LogFrame* frame);

 private:
  // Returns whether the file has `bytes` bytes from at_ on.
  StatusOr<bool> Has(uint64_t bytes) const;
  // Like Has, and reads these bytes into the buffer.
  StatusOr<bool> Fill(uint64_t bytes);
  std::string_view Here() const;  // the bytes of the buffer from at_ on
  StatusOr<bool> SkipHead();      // skips the header of the file
  // Returns whether all bytes of the file from at_ on are zero. A power failure can leave such
  // bytes in place of entries that were not synced.
  StatusOr<bool> EndsInZeros();

  const LogFile& file_;
  uint64_t at_;
  std::string buffer_;  // bytes of the file from base_ on; the first have_ are valid
  uint64_t base_ = 0, have_ = 0;
};

// Calls `take` for the frames with the number `first` or a later one. Returns its first error.
// Errors: as in LogFileReader::Next.
Status ReadLogFiles(const std::vector<LogFile>& files, uint64_t first,
                    const std::function<Status(const LogFrame&)>& take);
// Returns the numbers of the first frame that is not below `from` and of the last frame; 0: there
// is no such frame.
struct LogRange {
  uint64_t first = 0, last = 0;
};
StatusOr<LogRange> RangeOf(const std::vector<LogFile>& files, uint64_t from);

}  // namespace tandem::pserver
