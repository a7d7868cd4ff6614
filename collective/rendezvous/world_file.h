// Who takes part in a job whose ranks may change while it runs (strategy elastic): a file in the
// job's log folder, which tandemrun replaces whenever a process comes or is lost, and the trainers
// read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem {

struct ElasticWorld {
  int64_t version = 0;  // of the file: each one is above the last
  int least = 1;        // ranks that the job cannot do without
  bool over = false;    // some have come to the end of the job: nobody begins anything any more
  std::vector<int> members;  // processes by the number that they were started with, ascending

  bool operator==(const ElasticWorld&) const = default;
};

// Replaces the file at once: a reader sees the one or the other.
Status WriteElasticWorld(const std::string& path, const ElasticWorld& world);
// NOT_FOUND; DATA_LOSS when it is no such file.
StatusOr<ElasticWorld> ReadElasticWorld(const std::string& path);

}  // namespace tandem
