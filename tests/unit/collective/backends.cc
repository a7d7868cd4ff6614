#include "tests/unit/collective/backends.h"

namespace tandem::collective {
namespace {

using Params = std::vector<std::tuple<Backend, int>>;

// A pipe holds 13 bytes and a piece has at most 11 bytes, so that every transfer is interrupted in
// the middle.
World MakeNarrow(int size) {
  HostCommunicatorConfig config;
  config.rule.direct_bytes_max = 16;
  config.rule.pair_bytes_max = 64;
  config.piece_bytes_max = 11;
  World world;
  for (auto& transport : MakeInprocTransports(size, 13)) {
    world.push_back(std::make_unique<HostCommunicator>(std::move(transport), config));
  }
  return world;
}
World MakeTcp(int size) { return MakeTcpWorld(size); }
World MakeShm(int size) { return MakeShmWorld(size); }
World MakeGroups(int size, HierarchyForm form) {
  HostCommunicatorConfig config;
  config.rule.direct_bytes_max = 16;
  config.rule.pair_bytes_max = 64;
  config.rule.group = size % 3 == 0 ? 3 : size % 2 == 0 ? 2 : 1;
  config.rule.form = form;
  return MakeInprocCommunicators(size, config);
}
World MakeLeaders(int size) { return MakeGroups(size, HierarchyForm::kLeaders); }
World MakeShards(int size) { return MakeGroups(size, HierarchyForm::kShards); }

Params Combined(const std::vector<Backend>& backends, const std::vector<int>& sizes) {
  Params all;
  for (const Backend& backend : backends) {
    for (const int size : sizes) all.emplace_back(backend, size);
  }
  return all;
}

}  // namespace

World MakeInproc(int size) { return MakeInprocCommunicators(size); }
World MakeTree(int size) {
  HostCommunicatorConfig config;
  config.rule.direct_bytes_max = 16;
  config.rule.pair_bytes_max = 64;
  config.rule.tree_order = true;
  return MakeInprocCommunicators(size, config);
}

Params AllBackends() {
  return Combined(
      {{"inproc", MakeInproc}, {"narrow", MakeNarrow}, {"tcp", MakeTcp}, {"shm", MakeShm}},
      {1, 2, 3, 4, 5, 6, 7, 8, 9});
}
Params GroupedBackends() {
  return Combined({{"leaders", MakeLeaders}, {"shards", MakeShards}}, {4, 6, 8, 9});
}
Params TreeBackends() { return Combined({{"tree", MakeTree}}, {1, 2, 3, 4, 5, 6, 7, 8, 9}); }

std::string NameOf(const ::testing::TestParamInfo<std::tuple<Backend, int>>& info) {
  return absl::StrFormat("%s_%d", std::get<0>(info.param).name, std::get<1>(info.param));
}

}  // namespace tandem::collective
