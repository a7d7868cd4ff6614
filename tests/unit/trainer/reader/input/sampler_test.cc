#include "trainer/reader/input/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/base/check.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<uint32_t>;

Sampler Make(const SamplerOptions& options) {
  auto sampler = Sampler::Make(options);
  CHECK(sampler.ok()) << sampler.status();
  return *std::move(sampler);
}

Ids Get(Sampler& sampler, uint64_t epoch, uint64_t step) {
  const auto ids = sampler.Batch(epoch, step);
  return {ids.begin(), ids.end()};
}

TEST(Sampler, RanksShareTheBatchOfOneProcess) {
  for (const bool shuffle : {false, true}) {
    for (const Remainder remainder : {Remainder::kPad, Remainder::kDrop}) {
      SamplerOptions options{.samples = 103,
                             .global_batch = 12,
                             .shuffle = shuffle,
                             .seed = 5,
                             .remainder = remainder};
      Sampler local = Make(options);
      options.ranks = 3;
      std::vector<Sampler> ranks;
      for (options.rank = 0; options.rank < 3; ++options.rank) ranks.push_back(Make(options));
      for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        for (uint64_t step = 0; step < local.steps_per_epoch(); ++step) {
          Ids together;
          uint32_t real = 0;
          for (Sampler& rank : ranks) {
            EXPECT_EQ(rank.steps_per_epoch(), local.steps_per_epoch());
            const Ids ids = Get(rank, epoch, step);
            EXPECT_EQ(ids.size(), 4u);
            together.insert(together.end(), ids.begin(), ids.end());
            real += rank.RealSamples(step);
          }
          EXPECT_EQ(together, Get(local, epoch, step));
          EXPECT_EQ(real, local.RealSamples(step));
        }
      }
    }
  }
}

// Tests 23 samples in batches of 10 over 4 ranks, whose shares of a batch are 2, 3, 2 and 3. The
// last batch has 3 samples.
TEST(Sampler, WhoHasPaddingAloneHasNoWeight) {
  SamplerOptions options{.samples = 23, .global_batch = 10, .ranks = 4};
  const auto weights = [&options](uint64_t step) {
    std::vector<double> all;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      SamplerOptions own = options;
      own.rank = rank;
      all.push_back(Make(own).Weight(step));
    }
    return all;
  };
  EXPECT_THAT(weights(2), ElementsAre(1, 1, 1, 1));
  options.remainder = Remainder::kJoin;
  EXPECT_EQ(Make(options).steps_per_epoch(), 3u);
  EXPECT_THAT(weights(1), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(weights(2), ElementsAre(2, 2, 0, 0)) << "5 of 10 are in parts that are used";
  options.samples = 26;
  EXPECT_THAT(weights(2), ElementsAre(10.0 / 7, 10.0 / 7, 10.0 / 7, 0));
  options.samples = 30;
  EXPECT_THAT(weights(2), ElementsAre(1, 1, 1, 1));
  options.samples = 1;
  EXPECT_THAT(weights(0), ElementsAre(5, 0, 0, 0));
}

TEST(Sampler, SharesDifferByAtMostOneSample) {
  for (uint32_t batch = 1; batch < 40; ++batch) {
    for (uint32_t ranks = 1; ranks <= batch; ++ranks) {
      uint32_t next = 0;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const BatchShare share = ShareOf(batch, rank, ranks);
        ASSERT_EQ(share.first, next);
        ASSERT_TRUE(share.size == batch / ranks || share.size == (batch + ranks - 1) / ranks);
        next += share.size;
      }
      ASSERT_EQ(next, batch);
    }
  }
}

TEST(Sampler, PadFillsWithTheFirstSamples) {
  Sampler sampler = Make({.samples = 10, .global_batch = 4, .shuffle = false});
  ASSERT_EQ(sampler.steps_per_epoch(), 3u);
  EXPECT_THAT(Get(sampler, 0, 1), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(Get(sampler, 0, 2), ElementsAre(8, 9, 0, 1));
  EXPECT_EQ(sampler.RealSamples(1), 4u);
  EXPECT_EQ(sampler.RealSamples(2), 2u);
  Sampler second =
      Make({.samples = 10, .global_batch = 4, .ranks = 2, .rank = 1, .shuffle = false});
  EXPECT_THAT(Get(second, 0, 2), ElementsAre(0, 1));
  EXPECT_EQ(second.RealSamples(2), 0u);
  // If the batch is larger than the dataset, the batch repeats samples.
  Sampler round = Make({.samples = 3, .global_batch = 8, .shuffle = false});
  ASSERT_EQ(round.steps_per_epoch(), 1u);
  EXPECT_THAT(Get(round, 0, 0), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1));
  EXPECT_EQ(round.RealSamples(0), 3u);
}

TEST(Sampler, DropLeavesTheRestOut) {
  Sampler sampler = Make({.samples = 10, .global_batch = 4, .remainder = Remainder::kDrop});
  EXPECT_EQ(sampler.steps_per_epoch(), 2u);
  std::set<uint32_t> seen;
  for (uint64_t step = 0; step < 2; ++step) {
    for (uint32_t id : Get(sampler, 7, step)) seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 8u);
}

TEST(Sampler, ShufflesEachEpochAnewFromTheSeedAlone) {
  const SamplerOptions options{.samples = 100, .global_batch = 100, .seed = 3};
  Sampler a = Make(options), b = Make(options);
  const Ids first = Get(a, 0, 0), later = Get(a, 1, 0);
  EXPECT_NE(first, later);
  EXPECT_EQ(Get(b, 1, 0), later);  // a resumed sampler need not read epoch 0
  EXPECT_EQ(Get(a, 0, 0), first);
  Ids sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(sorted[i], i);
  SamplerOptions other = options;
  other.seed = 4;
  Sampler c = Make(other);
  EXPECT_NE(Get(c, 0, 0), first);
}

TEST(Sampler, RefusesWhatCannotWork) {
  const struct {
    SamplerOptions options;
    const char* expected;
  } cases[] = {
      {{.samples = 0, .global_batch = 4}, "no samples [TD2006]"},
      {{.samples = 9, .global_batch = 0}, "global batch size is 0"},
      {{.samples = 9, .global_batch = 3, .ranks = 4},
       "each of the 4 ranks needs at least one sample [TD2006]"},
      {{.samples = 9, .global_batch = 4, .ranks = 4, .rank = 4},
       "rank 4 is out of range: the job has 4 ranks"},
      {{.samples = 9, .global_batch = 10, .remainder = Remainder::kDrop}, "remainder: PAD"},
  };
  for (const auto& c : cases) {
    const Status status = Sampler::Make(c.options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(c.expected));
  }
}

}  // namespace
}  // namespace tandem::reader
