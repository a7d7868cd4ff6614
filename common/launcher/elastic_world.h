// The membership of an elastic job: its ranks may change while it runs (strategy elastic). It is a
// file in the job's log directory. tandemrun replaces it whenever a process joins or is lost, and
// the trainers read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem {

struct ElasticWorld {
  int64_t version = 0;  // version of the file; increases with each change
  int least = 1;        // least number of ranks that the job needs
  bool over = false;    // true: some have reached the end of the job, so no process begins new work
  std::vector<int> members;  // processes by the number with which they were started, ascending

  bool operator==(const ElasticWorld&) const = default;
};

// Replaces the file atomically: a reader sees either the old or the new content.
Status WriteElasticWorld(const std::string& path, const ElasticWorld& world);
// NOT_FOUND: no file. DATA_LOSS: it is no such file.
StatusOr<ElasticWorld> ReadElasticWorld(const std::string& path);

}  // namespace tandem
