// Publishes the members of an elastic job to the ranks of this host. JobDirector determines them.
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
  int64_t version() const { return version_; }  // version in the file; 0: no file
  // Writes world `version` with its members to the file, if the file has no newer world. REQUIRES:
  // elastic(); `members` is in ascending order.
  Status Publish(int64_t version, std::vector<int> members, bool over);

 private:
  const std::string file_;
  const int ranks_least_;
  int64_t version_ = 0;
};

}  // namespace tandem::deploy
