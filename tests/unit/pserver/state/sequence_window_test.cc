#include "pserver/state/sequence_window.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <set>

namespace tandem::pserver {
namespace {

TEST(SequenceWindowTest, KnowsWhatASetOfNumbersKnows) {
  using Seen = SequenceWindow::Seen;
  std::mt19937 random(3);
  SequenceWindow window;
  std::set<uint64_t> taken;
  for (int i = 0; i < 3000; ++i) {
    constexpr uint64_t kJumps[] = {1, 2, 63, 64, 65, 128, 511, 512, 513, 600};
    const uint64_t highest_before = window.highest(), down = random() % 600;
    uint64_t next = highest_before + kJumps[random() % std::size(kJumps)];
    if (random() % 3 != 0) next = highest_before > down ? highest_before - down : 1;
    if (window.Look(next) == Seen::kNew) {
      window.Take(next);
      taken.insert(next);
    }
    const uint64_t highest = window.highest();
    for (uint64_t back = 0; back <= 520 && back < highest; ++back) {
      const bool in_window = back <= SequenceWindow::kSize;
      const Seen expected = !in_window                       ? Seen::kTooOld
                            : taken.contains(highest - back) ? Seen::kTaken
                                                             : Seen::kNew;
      ASSERT_EQ(window.Look(highest - back), expected) << highest << " - " << back;
    }
  }
}

TEST(SequenceWindowTest, RemembersWhatWasTaken) {
  using Seen = SequenceWindow::Seen;
  SequenceWindow window;
  EXPECT_EQ(window.Look(0), Seen::kTooOld);
  for (uint64_t s : {1u, 3u, 70u, 2u, 71u, 400u, 69u}) {
    EXPECT_EQ(window.Look(s), Seen::kNew) << s;
    window.Take(s);
    EXPECT_EQ(window.Look(s), Seen::kTaken) << s;
  }
  EXPECT_EQ(window.Look(4), Seen::kNew);
  EXPECT_EQ(window.Look(2), Seen::kTaken);
  window.Take(1000000);
  EXPECT_EQ(window.Look(400), Seen::kTooOld);
  EXPECT_EQ(window.Look(1000000 - 512), Seen::kNew);
  EXPECT_EQ(window.Look(1000000 - 513), Seen::kTooOld);
  const auto copy = SequenceWindow::FromParts(window.highest(), window.words());
  EXPECT_EQ(copy.Look(1000000), Seen::kTaken);
}

}  // namespace
}  // namespace tandem::pserver
