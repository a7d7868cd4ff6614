// The members of an elastic job. The launcher determines and publishes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

// The current members. Not thread-safe.
class WorldMembership {
 public:
  // `file` is the file of common/launcher/elastic_world.h; empty: the job is not elastic.
  // `ranks_least` is the minimum number of ranks that the job needs.
  WorldMembership(std::string file, int ranks_least);

  bool elastic() const { return ranks_least_ > 0; }
  int ranks_least() const { return ranks_least_; }
  // Returns whether the job can continue with `left` ranks. `over`: a rank has completed the job.
  bool Suffices(size_t left, bool over) const;
  // Writes the new members to the file. Each call increases the version in the file. REQUIRES:
  // elastic(); `members` is in ascending order.
  Status Publish(std::vector<int> members, bool over);

 private:
  const std::string file_;
  const int ranks_least_;
  int64_t version_ = 0;
};

}  // namespace tandem::deploy
