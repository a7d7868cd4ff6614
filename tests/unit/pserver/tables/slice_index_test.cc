// Tests the index of dense slices by variable and element.
#include "pserver/tables/slice_index.h"

#include "gmock/gmock.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

class SliceIndexTest : public testing::Test {
 protected:
  static std::string Message(const StatusOr<int>& found) {
    return std::string(found.status().message());
  }

  const SliceIndex index_{{{"w", Shape{10}, 6, 4}, {"b", Shape{1}, 0, 1}, {"w", Shape{10}, 0, 3}}};
};

TEST_F(SliceIndexTest, FindsTheSliceThatHasAllElements) {
  EXPECT_EQ(*index_.FindRange({"w", 7, 3}), 0);
  EXPECT_EQ(*index_.FindRange({"w", 0, 3}), 2);
  EXPECT_EQ(*index_.FindRange({"b", 0, 1}), 1);
  EXPECT_EQ(*index_.Find("w", 6), 0);
  EXPECT_TRUE(index_.Holds("w"));
  EXPECT_FALSE(index_.Holds("x"));
}

TEST_F(SliceIndexTest, NamesTheElementsThatAreHere) {
  EXPECT_THAT(Message(index_.FindRange({"w", 2, 2})),
              HasSubstr("not on this server, which has elements [0, 3), [6, 10)"));
  EXPECT_THAT(Message(index_.FindRange({"w", 6, INT64_MAX})), HasSubstr("are not on this server"));
  EXPECT_THAT(Message(index_.FindRange({"w", 6, 0})), HasSubstr("are not on this server"));
  EXPECT_THAT(Message(index_.Find("w", 7)), HasSubstr("the nearest begins at element 6"));
  EXPECT_THAT(Message(index_.Find("v", 0)), HasSubstr("unknown variable \"v\""));
}

}  // namespace
}  // namespace tandem::pserver
