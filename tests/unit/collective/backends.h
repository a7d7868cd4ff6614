// Declares the communicators that the conformance suites test.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/collective/world.h"

namespace tandem::collective {

struct Backend {
  const char* name;
  World (*make)(int size);
};

// All backends, each with 1 to 9 ranks: in-process, narrow (every transfer is interrupted in the
// middle), TCP and shared memory.
std::vector<std::tuple<Backend, int>> AllBackends();
// Backends with groups of ranks, in both forms of hierarchy.
std::vector<std::tuple<Backend, int>> GroupedBackends();
// Backends that sum along a tree.
std::vector<std::tuple<Backend, int>> TreeBackends();
World MakeInproc(int size);
World MakeTree(int size);

class ConformanceTest : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  std::string backend() const { return std::get<0>(GetParam()).name; }
  World Make() const { return std::get<0>(GetParam()).make(size()); }
};
std::string NameOf(const ::testing::TestParamInfo<std::tuple<Backend, int>>& info);

}  // namespace tandem::collective
