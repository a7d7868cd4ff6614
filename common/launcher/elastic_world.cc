#include "common/launcher/elastic_world.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/require.h"
#include "common/os/files.h"

namespace tandem {
namespace {

constexpr uint64_t kBytesMax = 1 << 20;

}  // namespace

Status WriteElasticWorld(const std::string& path, const ElasticWorld& world) {
  TD_REQUIRE(world.version > 0 && world.least > 0);
  TD_REQUIRE(std::is_sorted(world.members.begin(), world.members.end()));
  const std::string text =
      absl::StrFormat("version %d least %d over %d members %d %s\n", world.version, world.least,
                      world.over ? 1 : 0, world.members.size(), absl::StrJoin(world.members, " "));
  return PublishFiles(
      {{path, [&text](const std::string& draft) { return WriteTextFile(draft, text); }}});
}

StatusOr<ElasticWorld> ReadElasticWorld(const std::string& path) {
  TD_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kBytesMax));
  std::istringstream words(text);
  ElasticWorld world;
  std::string names[4];
  size_t count = 0;
  words >> names[0] >> world.version >> names[1] >> world.least >> names[2] >> world.over >>
      names[3] >> count;
  for (int member = 0; world.members.size() < count && words >> member;) {
    world.members.push_back(member);
  }
  const bool good = !words.fail() && names[0] == "version" && names[1] == "least" &&
                    names[2] == "over" && names[3] == "members" && world.version > 0 &&
                    world.members.size() == count &&
                    std::is_sorted(world.members.begin(), world.members.end());
  if (!good)
    return DataLoss("world file %s does not name the ranks of the job: it contains \"%s\"", path,
                    text);
  return world;
}

Status CheckMembers(const std::string& path, int64_t version, const std::vector<int>& members) {
  const StatusOr<ElasticWorld> now = ReadElasticWorld(path);
  if (!now.ok() || now->version <= version || now->over) return OkStatus();
  for (const int member : members) {
    if (std::binary_search(now->members.begin(), now->members.end(), member)) continue;
    return Aborted("trainer %d is lost: world %d of the job does not have it [TD3005]", member,
                   now->version);
  }
  return OkStatus();
}

}  // namespace tandem
