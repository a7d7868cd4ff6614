// What ranks of a job tell the launcher (trainer/launcher_line.h), through a FIFO: that another one
// does not come, or that they are ready to take part.
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem::deploy {

struct SilentRank {
  int rank = 0;
  Duration waited{};  // by whoever says so
};

struct RankWords {
  std::vector<SilentRank> silent;
  std::vector<int> ready;
};

class RankWordsFifo {
 public:
  // Makes the FIFO, for this user alone; what had its name is removed.
  Status Open(const std::string& path);
  ~RankWordsFifo();

  int fd() const { return fifo_.get(); }  // readable when there is news; -1: not opened
  // What was said since the last call. Never blocks. Lines that make no sense are left out.
  RankWords Read();

 private:
  std::string path_;
  Fd fifo_;
  std::string rest_;  // of a line whose end has not come yet
};

}  // namespace tandem::deploy
