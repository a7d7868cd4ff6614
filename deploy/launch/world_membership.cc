#include "deploy/launch/world_membership.h"

#include <algorithm>
#include <utility>

#include "common/base/require.h"
#include "common/launcher/elastic_world.h"

namespace tandem::deploy {

WorldMembership::WorldMembership(std::string file, int ranks_least)
    : file_(std::move(file)), ranks_least_(ranks_least) {
  TD_REQUIRE(elastic() == !file_.empty());
}

Status WorldMembership::Publish(int64_t version, std::vector<int> members, bool over) {
  TD_REQUIRE(elastic());
  TD_REQUIRE(std::is_sorted(members.begin(), members.end()));
  if (version <= version_) return OkStatus();
  version_ = version;
  return WriteElasticWorld(file_, {version_, ranks_least_, over, std::move(members)});
}

}  // namespace tandem::deploy
