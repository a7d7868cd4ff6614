// The members of an elastic job, as its launcher decides and publishes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

// Not thread-safe.
class WorldMembership {
 public:
  // `file`: see common/launcher/elastic_world.h; empty: the job is not elastic. `ranks_least`: the
  // smallest number of ranks that the job needs.
  WorldMembership(std::string file, int ranks_least);

  bool elastic() const { return ranks_least_ > 0; }
  int ranks_least() const { return ranks_least_; }
  // Whether the job continues with `left` ranks. `over`: some have reached the end of the job.
  bool Suffices(size_t left, bool over) const;
  // Replaces the file; each call has the next version. REQUIRES: elastic(); `members` is ascending.
  Status Publish(std::vector<int> members, bool over);

 private:
  const std::string file_;
  const int ranks_least_;
  int64_t version_ = 0;
};

}  // namespace tandem::deploy
