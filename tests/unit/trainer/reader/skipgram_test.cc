#include "trainer/reader/skipgram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/trainer/test_files.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Sample {
  std::vector<int64_t> center, target, label;
};

Sample Read(const Dataset& data, uint32_t id) {
  const auto n = static_cast<size_t>(data.fields()[0].desc.shape[0]);
  Sample s{std::vector<int64_t>(n), std::vector<int64_t>(n), std::vector<int64_t>(n)};
  void* out[] = {s.center.data(), s.target.data(), s.label.data()};
  EXPECT_TRUE(data.Fill(std::span(&id, 1), out).ok());
  return s;
}

class SkipGramTest : public testing::Test {
 protected:
  SkipGramOptions Options(const std::string& text) {
    trainer::WriteFile(dir_ / "text", text);
    SkipGramOptions options;
    options.path = dir_ / "text";
    options.vocabulary = 4;
    options.window = 2;
    options.negatives = 3;
    options.test_share = 0.4;
    return options;
  }
  TempDir dir_;
};

// a appears 4 times, b and c twice, d and rare once. The vocabulary has four words: a, b, c, d.
// "rare" is as frequent as d, but is omitted because it follows d in the alphabet.
constexpr const char* kText = "A b, a C! a rare d; c-a b";

TEST_F(SkipGramTest, PairsOfNearWords) {
  const auto data = OpenSkipGram(Options(kText));
  ASSERT_TRUE(data.ok()) << data.status();
  // The text is "a b a c a d c a b" after "rare" is removed. Six tenths of its nine words, rounded
  // down to five words, are for training.
  ASSERT_EQ(data->train->size(), 5u * 4);
  ASSERT_EQ(data->test->size(), 4u * 4);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (uint32_t id = 8; id < 12; ++id) {
    const Sample s = Read(*data->train, id);
    EXPECT_THAT(s.label, ElementsAre(1, 0, 0, 0));
    EXPECT_EQ(std::set<int64_t>(s.center.begin(), s.center.end()).size(), 1u);
    for (size_t k = 1; k < s.target.size(); ++k) EXPECT_NE(s.target[k], s.target[0]);
    pairs.emplace_back(s.center[0], s.target[0]);
  }
  using P = std::pair<int64_t, int64_t>;
  EXPECT_THAT(pairs, ElementsAre(P(0, 0), P(0, 1), P(0, 2), P(0, 0)));
  // The window wraps around: the word two positions before d is at the end of the test part.
  const Sample last = Read(*data->test, 0);
  EXPECT_EQ(last.center[0], 3);
  EXPECT_EQ(last.target[0], 0);
  EXPECT_EQ(Read(*data->train, 9).target, Read(*data->train, 9).target);
}

TEST_F(SkipGramTest, FrequentWordsAreDrawnMoreOften) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += i % 10 == 0 ? "rare other " : "often other ";
  SkipGramOptions options = Options(text);
  const auto data = OpenSkipGram(options);
  ASSERT_TRUE(data.ok()) << data.status();
  int counts[3] = {};
  for (uint32_t id = 0; id < 2000; ++id) {
    const Sample s = Read(*data->train, id);
    for (size_t k = 1; k < s.target.size(); ++k) {
      // If the neighbour is "other", negative samples can only be "often" and "rare".
      if (s.target[0] == 0) ++counts[s.target[k]];
    }
  }
  EXPECT_EQ(counts[0], 0);
  EXPECT_GT(counts[1], 3 * counts[2]);
  EXPECT_GT(counts[2], 0);
}

TEST_F(SkipGramTest, WhatCannotBeRead) {
  const auto error = [](const SkipGramOptions& options) {
    return std::string(OpenSkipGram(options).status().message());
  };
  SkipGramOptions options = Options(kText);
  options.window = 0;
  EXPECT_THAT(error(options), HasSubstr("window is 0"));
  options.window = 4;
  EXPECT_THAT(error(options), HasSubstr("too few"));
  EXPECT_THAT(error(Options("a b a b")), HasSubstr("2 words of the vocabulary"));
  options.path = dir_ / "none";
  options.window = 1;
  EXPECT_EQ(OpenSkipGram(options).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem::reader
