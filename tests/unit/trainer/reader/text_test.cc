#include "trainer/reader/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/test_files.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TextTest : public testing::Test {
 protected:
  StatusOr<TrainAndTest> Open(const std::string& text, TextOptions options) {
    options.path = dir_ / "text";
    trainer::WriteFile(options.path, text);
    return OpenText(options);
  }
  // Returns the values of "ids" of one sample, followed by the values of "label".
  static std::vector<int64_t> Sample(const Dataset& data, uint32_t id, size_t sequence) {
    std::vector<int64_t> values(2 * sequence, -1);
    const std::vector<void*> out = {values.data(), values.data() + sequence};
    const uint32_t ids[] = {id};
    EXPECT_TRUE(data.Fill(ids, out).ok());
    return values;
  }
  TempDir dir_;
};

TEST_F(TextTest, WindowsAndTheBytesBehindThem) {
  const auto data = Open("abcdefghij\xff.", {.sequence = 3, .test_share = 0.4});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->size(), 2u);  // made from "abcdefg": the last label is g
  EXPECT_THAT(Sample(*data->train, 0, 3), ElementsAre('a', 'b', 'c', 'b', 'c', 'd'));
  EXPECT_THAT(Sample(*data->train, 1, 3), ElementsAre('d', 'e', 'f', 'e', 'f', 'g'));
  EXPECT_EQ(data->test->size(), 1u);  // made from the rest of the text, "hij\xff."
  EXPECT_THAT(Sample(*data->test, 0, 3), ElementsAre('h', 'i', 'j', 'i', 'j', 255));
  EXPECT_EQ(data->train->fields()[0].limit, 256);
}

TEST_F(TextTest, WindowsMayOverlap) {
  const auto data = Open("abcdefghij", {.sequence = 3, .stride = 1, .test_share = 0.4});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->size(), 3u);
  EXPECT_THAT(Sample(*data->train, 2, 3), ElementsAre('c', 'd', 'e', 'd', 'e', 'f'));
}

TEST_F(TextTest, MasksWhatIsPredicted) {
  constexpr size_t kSequence = 50;
  const auto data = Open(std::string(6000, 'x'), {.sequence = kSequence, .predicted = 10});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->fields()[0].limit, 257);
  int masked = 0, other = 0;
  for (uint32_t id = 0; id < 100; ++id) {
    const auto values = Sample(*data->train, id, kSequence);
    EXPECT_EQ(Sample(*data->train, id, kSequence), values);
    int predicted = 0;
    for (size_t i = 0; i < kSequence; ++i) {
      const int64_t token = values[i], label = values[kSequence + i];
      EXPECT_EQ(label, label == -100 ? -100 : 'x');
      EXPECT_TRUE(label != -100 || token == 'x');
      predicted += label != -100 ? 1 : 0;
      masked += token == 256 ? 1 : 0;
      other += token != 256 && token != 'x' ? 1 : 0;
    }
    EXPECT_EQ(predicted, 10);
  }
  EXPECT_NEAR(masked, 800, 60);
  EXPECT_NEAR(other, 100, 40);
  EXPECT_NE(Sample(*data->train, 0, kSequence), Sample(*data->train, 1, kSequence));
}

TEST_F(TextTest, FirstSamples) {
  const auto data = Open(std::string(100, 'x'), {.sequence = 3, .samples_max = 5});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->size(), 5u);
  EXPECT_EQ(data->test->size(), 3u);
  int64_t values[6];
  const std::vector<void*> out = {values, values + 3};
  const uint32_t ids[] = {5};
  EXPECT_EQ(data->train->Fill(ids, out).code(), StatusCode::kOutOfRange);
}

TEST_F(TextTest, SaysWhatIsWrong) {
  const std::string text(100, 'x');
  EXPECT_THAT(Open(text, {.sequence = 0}).status().message(), HasSubstr("data.text.sequence is 0"));
  EXPECT_THAT(Open(text, {.stride = -1}).status().message(), HasSubstr("data.text.stride is -1"));
  EXPECT_THAT(Open(text, {.sequence = 3, .predicted = 4}).status().message(),
              HasSubstr("data.text.predicted is 4"));
  EXPECT_THAT(Open(text, {.sequence = 3, .test_share = 1}).status().message(),
              HasSubstr("test_share is 1"));
  const auto few = Open(text, {.sequence = 10});
  EXPECT_EQ(few.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(few.status().message(), HasSubstr("has only 100 bytes, which is too few"));
  EXPECT_EQ(OpenText({.path = dir_ / "none"}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(OpenText({.path = dir_.path()}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::reader
