// The membership of an elastic job (strategy `elastic`), whose ranks may change while the job runs.
// The membership is a file in the job's log directory. tandemrun replaces the file whenever a
// process joins or is lost. The trainers read the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem {

struct ElasticWorld {
  int64_t version = 0;  // version of the membership; increases with each change
  int least = 1;        // minimum number of ranks
  // true: a rank has completed the job's last step; no process may begin new work
  bool over = false;
  // Numbers of the member processes, ascending. tandemrun assigns a number to each process when it
  // starts the process.
  std::vector<int> members;

  bool operator==(const ElasticWorld&) const = default;
};

// Replaces the file atomically: a reader sees either the old or the new content.
Status WriteElasticWorld(const std::string& path, const ElasticWorld& world);
// Reads the file that WriteElasticWorld wrote. NOT_FOUND: there is no file. DATA_LOSS: the file has
// another format.
StatusOr<ElasticWorld> ReadElasticWorld(const std::string& path);
// Checks that `members` of world `version` can still work together. ABORTED: the file has a newer
// world without one of them; the message names it. A file that cannot be read is no error, and
// neither is a world that is over, because its members leave when they are done.
Status CheckMembers(const std::string& path, int64_t version, const std::vector<int>& members);

}  // namespace tandem
