// Tests the numbers of changes, and which parts of a push are logged.
#include "pserver/shard/log/journal.h"

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
  journal.Note(LogEntry::Kind::kComplete, Head(0, 0, 0));
  journal.Resume(10);
  journal.NoteMove(LogEntry::Kind::kMoveBegun, {});
  EXPECT_THAT(Numbers(), ElementsAre(1, 11));
  EXPECT_EQ(journal.settled_number(), 0u);
  journal.Settle();
  EXPECT_EQ(journal.settled_number(), 11u);
}

TEST_F(JournalTest, AReplayedChangeIsNotLoggedAgain) {
  Journal journal(&log_, /*replayable=*/false);
  {
    const Journal::Replay replay(journal, 5);
    journal.Note(LogEntry::Kind::kComplete, Head(0, 0, 0));
    EXPECT_EQ(journal.number(), 5u);
  }
  journal.Note(LogEntry::Kind::kComplete, Head(1, 0, 0));
  EXPECT_THAT(Numbers(), ElementsAre(6));
}

TEST_F(JournalTest, AReplayablePushIsLoggedWithoutItsValues) {
  Journal journal(&log_, /*replayable=*/true);
  PushTicket ticket{.slices = {0}, .buffers = {FloatBuffer({1, 2, 3, 4})}};
  journal.NotePush(Head(0, 1, 3), ticket);
  ticket.skipped = true;
  journal.NotePush(Head(0, 2, 3), ticket);
  ASSERT_EQ(log_.entries.size(), 2u);
  EXPECT_EQ(log_.entries[0].kind, LogEntry::Kind::kOrder);
  EXPECT_TRUE(log_.entries[0].values.empty());
  EXPECT_EQ(log_.entries[0].head.step, 3u);
  EXPECT_EQ(log_.entries[0].sender_bytes, 16u);
  EXPECT_EQ(log_.entries[1].kind, LogEntry::Kind::kPush) << "its sender has other values";
  EXPECT_EQ(log_.entries[1].values.size(), 1u);
}

TEST_F(JournalTest, WithoutALogNothingIsNumbered) {
  Journal journal(nullptr, /*replayable=*/false);
  journal.Note(LogEntry::Kind::kComplete, Head(0, 0, 0));
  EXPECT_EQ(journal.number(), 0u);
  EXPECT_EQ(journal.Ready(1 << 30), OkStatus());
}

}  // namespace
}  // namespace tandem::pserver
