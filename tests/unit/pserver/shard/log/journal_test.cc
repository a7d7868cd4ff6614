// Tests the numbers of changes, and which parts of a push are logged.
#include "pserver/shard/log/journal.h"

#include <variant>

#include "tests/unit/pserver/shard/parts_fixture.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;

class JournalTest : public PartsTest {
 protected:
  std::vector<uint64_t> Numbers() const {
    std::vector<uint64_t> numbers;
    for (const LogEntry& entry : log_.entries) numbers.push_back(entry.number);
    return numbers;
  }
};

TEST_F(JournalTest, NumbersFollowEachOtherAndTheRestoredOnes) {
  Journal journal(&log_, /*replayable=*/false);
  journal.Note(CompleteRecord{Head(0, 0, 0).caller});
  journal.Resume(10);
  journal.Note(MoveBegunRecord{});
  EXPECT_THAT(Numbers(), ElementsAre(1, 11));
  EXPECT_EQ(journal.settled_number(), 0u);
  journal.Settle();
  EXPECT_EQ(journal.settled_number(), 11u);
}

TEST_F(JournalTest, AReplayedChangeIsNotLoggedAgain) {
  Journal journal(&log_, /*replayable=*/false);
  {
    const Journal::Replay replay(journal, 5);
    journal.Note(CompleteRecord{Head(0, 0, 0).caller});
    EXPECT_EQ(journal.number(), 5u);
  }
  journal.Note(CompleteRecord{Head(1, 0, 0).caller});
  EXPECT_THAT(Numbers(), ElementsAre(6));
}

TEST_F(JournalTest, AReplayablePushIsLoggedWithoutItsValues) {
  Journal journal(&log_, /*replayable=*/true);
  PushTicket ticket{.slices = {0}, .buffers = {FloatBuffer({1, 2, 3, 4})}};
  journal.NotePush(Head(0, 1, 3), ticket);
  ticket.skipped = true;
  journal.NotePush(Head(0, 2, 3), ticket);
  ASSERT_EQ(log_.entries.size(), 2u);
  const auto& order = std::get<OrderRecord>(log_.entries[0].record);
  EXPECT_EQ(order.header.step, 3u);
  EXPECT_EQ(order.sender_bytes, 16u);
  const auto* const push = std::get_if<PushRecord>(&log_.entries[1].record);
  ASSERT_NE(push, nullptr) << "its sender has other values";
  EXPECT_EQ(push->values.size(), 1u);
}

TEST_F(JournalTest, WithoutALogNothingIsNumbered) {
  Journal journal(nullptr, /*replayable=*/false);
  journal.Note(CompleteRecord{Head(0, 0, 0).caller});
  EXPECT_EQ(journal.number(), 0u);
  EXPECT_EQ(journal.Ready(1 << 30), OkStatus());
}

}  // namespace
}  // namespace tandem::pserver
