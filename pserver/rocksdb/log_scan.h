// Decodes the frames of a log for Storage::ScanLog.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/log_files/log_file.h"
#include "pserver/storage/scanned_entry.h"

namespace tandem::pserver {

// Passes frames to a ScanSink, with the restores between them. Not thread-safe.
class LogScan {
 public:
  // `breaks`: the restores of the log by ascending numbers, with all that precede a frame. `dir`:
  // directory of the store, for messages. `take` must outlive this object.
  LogScan(std::vector<LogBreak> breaks, std::string dir, const ScanSink& take);
  // Passes the next frame. Returns the error of the sink. DATA_LOSS: the frame is damaged, or a
  // frame is missing before it.
  Status Add(const LogFrame& frame);

 private:
  const std::vector<LogBreak> breaks_;
  const std::string dir_;
  const ScanSink& take_;
  size_t break_ = 0;       // index of the first break that is not below the next frame
  uint64_t previous_ = 0;  // number of the frame before; 0: there is none
};

}  // namespace tandem::pserver
