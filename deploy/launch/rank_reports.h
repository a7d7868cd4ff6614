// Reads the reports of a job's processes from a FIFO
// (common/launcher/launcher_words.h).
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "deploy/launch/hosts/job_messages.h"

namespace tandem::deploy {

// A request of `tandem scale`: the job shall have `number` workers, or pservers.
struct ScaleRequest {
  enum class What { kWorkers, kPservers };
  What what = What::kWorkers;
  int number = 0;
};

struct RankReports {
  std::vector<ProcessWait> waits;
  std::vector<NamedProcess> here;
  std::vector<int> ready;     // ranks of trainers that are ready to join
  std::vector<int> promoted;  // ranks of pservers of which a standby must become the primary
  std::vector<ScaleRequest> scale;
};

class RankReportFifo {
 public:
  // Creates the FIFO, to which only this user has access. Removes an existing file at `path`.
  Status Open(const std::string& path);
  ~RankReportFifo();

  int fd() const { return fifo_.get(); }  // FIFO, readable if there are reports; -1: not open
  // Returns reports that have arrived since the last call. One call reads up to 4096 bytes. Does
  // not block. Skips lines that are not valid.
  RankReports Read();

 private:
  std::string path_;
  Fd fifo_;
  std::string rest_;  // the beginning of a line that is not complete yet
};

// Asks the tandemrun that reads the FIFO at `path` to make a standby of pserver `rank` its primary.
// Does not block. UNAVAILABLE: tandemrun does not read the FIFO.
Status RequestPromotion(const std::string& path, int rank);
// Asks this tandemrun to change the number of workers or pservers. Does not block. UNAVAILABLE:
// tandemrun does not read the FIFO.
Status RequestScale(const std::string& path, const ScaleRequest& request);

}  // namespace tandem::deploy
