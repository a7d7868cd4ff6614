// Runs a target with each of its seeds: whole, truncated, and mutated (TANDEM_FUZZ_RUNS mutations).
#include <gtest/gtest.h>

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/text_fuzz_util.h"

namespace tandem {
namespace {

TEST(Fuzz, SeedsAreAccepted) {
  const FuzzTarget target = MakeFuzzTarget();
  size_t accepted = 0;
  for (const std::string& seed : target.seeds) accepted += target.accepts(seed) ? 1 : 0;
  EXPECT_EQ(accepted, target.seeds.size());
}

TEST(Fuzz, CutAndMutatedSeeds) {
  const FuzzTarget target = MakeFuzzTarget();
  const auto [seed, runs] = FuzzRunsOf(200);
  std::mt19937_64 random(seed);
  for (const std::string& whole : target.seeds) {
    for (size_t bytes = 0; bytes < whole.size(); bytes += whole.size() / 16 + 1) {
      target.accepts(whole.substr(0, bytes));
    }
  }
  std::vector<const char*> words = target.words;
  words.push_back("\xff");
  int64_t refused = 0;
  for (int64_t i = 0; i < runs; ++i) {
    const std::string& whole = target.seeds[static_cast<size_t>(i) % target.seeds.size()];
    refused += target.accepts(MutateText(whole, words, random)) ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace tandem
