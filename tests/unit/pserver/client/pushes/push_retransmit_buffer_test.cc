// Tests the pushes that a client keeps until a checkpoint holds them. This includes pushes for
// which the client does not know whether the server accepted them.
#include "pserver/client/pushes/push_retransmit_buffer.h"

#include "gtest/gtest.h"

namespace tandem::ps {
namespace {

void Keep(PushRetransmitBuffer& kept, uint64_t sequence) {
  ASSERT_TRUE(kept.Reserve(sequence, 10));
  (void)kept.Keep({.part = {.header = {.sequence = sequence, .step = sequence}, .bytes = 10}});
}

TEST(KeptPushesTest, ADoubtfulPushIsKeptAsLongAsALaterOne) {
  PushRetransmitBuffer kept(1000);
  for (const uint64_t sequence : {1, 2}) Keep(kept, sequence);
  kept.Doubtful(0, 1);
  // Push 2 was sent before push 1 became doubtful, so the server may have accepted push 2 before
  // push 1.
  kept.Answered(0, 2, 7);
  kept.Checkpointed(0, 7);
  EXPECT_EQ(kept.bytes(), 10u);
  EXPECT_EQ(kept.Of(0)[0]->part.header.sequence, 1u);
  Keep(kept, 3);
  kept.Answered(0, 3, 9);
  kept.Checkpointed(0, 8);
  EXPECT_EQ(kept.bytes(), 20u);
  kept.Checkpointed(0, 9);
  EXPECT_EQ(kept.bytes(), 0u);
}

}  // namespace
}  // namespace tandem::ps
