// Tests NaN and infinity in pushes, skipped pushes, and delay compensation.
#include "pserver/tables/push_filters.h"

#include <cmath>
#include <limits>

#include "tests/unit/pserver/shard/parts_fixture.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PushFiltersTest : public PartsTest {
 protected:
  // Returns the head of a push of the slice and of two rows of the table.
  PushHead Both() const {
    PushHead head = Head(0, 1, 0);
    head.slices.push_back({"emb", 0, {DType::kI64, Shape{2}}});
    head.slices.push_back({"emb", 0, {DType::kF32, Shape{2, 2}}});
    return head;
  }
  PushTicket Ticket(const std::vector<float>& rows) const {
    const int64_t ids[] = {3, 8};
    const Buffer id_bytes = *pool_.Take(sizeof(ids));
    std::memcpy(id_bytes.get(), ids, sizeof(ids));
    return {.slices = {0, 1, 1},
            .buffers = {FloatBuffer({1, 2, 3, 4}), id_bytes, FloatBuffer(rows)}};
  }
  static std::string Text(const Status& status) { return std::string(status.message()); }

  mutable BufferPool pool_{0};
};

TEST_F(PushFiltersTest, TheFirstBadValueIsNamed) {
  EXPECT_EQ(CheckFinite(Both(), Ticket({1, 2, 3, 4})), OkStatus());
  EXPECT_THAT(Text(CheckFinite(Both(), Ticket({1, 2, 3, NAN}))),
              HasSubstr("emb, row 8, element 1 is NaN"));
  PushTicket ticket = Ticket({1, 2, 3, 4});
  ticket.buffers[0] = FloatBuffer({1, std::numeric_limits<float>::infinity(), 3, 4});
  EXPECT_THAT(Text(CheckFinite(Both(), ticket)), HasSubstr("w, element 1 is infinite"));
}

TEST_F(PushFiltersTest, AnEmptyPushOfAStepStillHasAllItsParts) {
  Start(UpdatePolicy::kSync);
  PushTicket ticket = Ticket({1, 2, 3, NAN});
  const PushHead emptied = EmptyPush(Both(), UpdatePolicy::kSync, *state_->params, ticket);
  EXPECT_TRUE(ticket.skipped);
  ASSERT_EQ(emptied.slices.size(), 3u);
  EXPECT_EQ(emptied.slices[1].desc.shape, Shape{0});
  EXPECT_EQ(emptied.slices[2].desc.shape, (Shape{0, 2}));
  const auto zeros = Floats(ticket.buffers[0], 4);
  EXPECT_THAT(std::vector<float>(zeros.begin(), zeros.end()), ElementsAre(0, 0, 0, 0));
  PushTicket other = Ticket({1, 2, 3, NAN});
  EXPECT_TRUE(EmptyPush(Both(), UpdatePolicy::kASync, *state_->params, other).slices.empty());
  EXPECT_TRUE(other.buffers.empty());
}

TEST_F(PushFiltersTest, AGradientFromOldParametersIsCorrected) {
  Start(UpdatePolicy::kASync);
  const Buffer pulled = *state_->params->slices().Params(0);
  state_->params->slices().Pulled(0, 0, pulled);
  ApplyOnes();  // an update by another trainer: each element decreases by 0.5
  PushHead head = Head(0, 1, 0);
  PushTicket ticket{.slices = {0}, .buffers = {FloatBuffer({2, 0, 1, -1})}};
  ASSERT_EQ(CompensateDelay(head, 1.0f, *state_->params, ticket), OkStatus());
  // The expected value is g + g * g * (current w - pulled w), for each element.
  const auto sum = Floats(ticket.buffers[0], 4);
  EXPECT_THAT(std::vector<float>(sum.begin(), sum.end()), ElementsAre(0, 0, 0.5f, -1.5f));
}

}  // namespace
}  // namespace tandem::pserver
