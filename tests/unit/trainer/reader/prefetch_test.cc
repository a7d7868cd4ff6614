#include "trainer/reader/prefetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tandem::reader {
namespace {

using testing::HasSubstr;

Time In(int seconds) { return SteadyNow() + std::chrono::seconds(seconds); }

// A dataset whose sample i is the number i. The test can make it block or fail.
class Numbers final : public Dataset {
 public:
  explicit Numbers(uint32_t size, bool packed = false) : size_(size) { fields_[0].packed = packed; }
  uint32_t size() const override { return size_; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    MutexLock lock(mu_);
    while (blocked_) {
      if (!changed_.WaitUntil(mu_, In(30))) return DeadlineExceeded("test blocked for ever");
    }
    ++fills_;
    changed_.NotifyAll();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == bad_) return DataLoss("numbers: sample %d is bad", ids[i]);
      static_cast<int64_t*>(out[0])[i] = ids[i];
    }
    return OkStatus();
  }
  std::string Describe() const override { return "numbers"; }

  void set_bad(uint32_t id) {
    MutexLock lock(mu_);
    bad_ = id;
  }
  void set_blocked(bool blocked) {
    MutexLock lock(mu_);
    blocked_ = blocked;
    changed_.NotifyAll();
  }
  bool WaitForFills(int count) {
    MutexLock lock(mu_);
    const Time deadline = In(30);
    while (fills_ < count) {
      if (!changed_.WaitUntil(mu_, deadline) && fills_ < count) return false;
    }
    return true;
  }
  int fills() const {
    MutexLock lock(mu_);
    return fills_;
  }

 private:
  const uint32_t size_;
  std::vector<SampleField> fields_ = {{"x", {DType::kI64, {1}}}};
  mutable Mutex mu_;
  mutable CondVar changed_;
  mutable int fills_ TD_GUARDED_BY(mu_) = 0;
  bool blocked_ TD_GUARDED_BY(mu_) = false;
  uint32_t bad_ TD_GUARDED_BY(mu_) = ~0u;
};

class PrefetchTest : public testing::Test {
 protected:
  std::unique_ptr<Prefetcher> Make(int32_t capacity, ReadMode mode = ReadMode::kAhead) {
    auto sampler = Sampler::Make({.samples = data_.size(), .global_batch = 4, .shuffle = false});
    CHECK(sampler.ok());
    auto reader = Prefetcher::Make(data_, *sampler, capacity, device_, mode);
    CHECK(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  // Reads batches to the end. Returns "epoch.step:first number" for each batch.
  static std::vector<std::string> Drain(Prefetcher& reader) {
    std::vector<std::string> out;
    for (;;) {
      const auto batch = reader.Next(In(30));
      if (!batch.ok()) {
        out.push_back(std::string(batch.status().message()));
        return out;
      }
      if (*batch == nullptr) return out;
      const Batch& b = **batch;
      out.push_back(absl::StrFormat("%d.%d:%d%s", b.epoch, b.step, b.fields[0].span<int64_t>()[0],
                                    b.last_of_epoch ? "$" : ""));
    }
  }

  CpuDevice device_;
  Numbers data_{10};  // 10 samples: 3 batches per epoch
};

using testing::ElementsAre;

TEST_F(PrefetchTest, ReadsEpochsInOrderThenEnds) {
  const auto reader = Make(2);
  EXPECT_EQ(reader->Next(In(30)).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(reader->Reset({.epoch_end = 2}).ok());
  EXPECT_THAT(Drain(*reader), ElementsAre("0.0:0", "0.1:4", "0.2:8$", "1.0:0", "1.1:4", "1.2:8$"));
  EXPECT_THAT(Drain(*reader), ElementsAre()) << "the end stays the end";
  EXPECT_EQ(reader->stats().batches, 6u);
}

// The prefetcher calls a dataset with packed fields once for each part of a batch. It calls other
// datasets once for the whole batch.
TEST_F(PrefetchTest, PartsOfPackedBatchesAreFilledOnTheirOwn) {
  for (const bool packed : {true, false}) {
    const Numbers data(10, packed);
    const auto sampler = Sampler::Make({.samples = 10, .global_batch = 4, .shuffle = false});
    const auto reader = Prefetcher::Make(data, *sampler, 2, device_, ReadMode::kOnDemand, 3);
    ASSERT_TRUE(reader.ok() && (*reader)->Reset({.step = 2}).ok());
    const auto batch = (*reader)->Next(In(30));
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_THAT((*batch)->fields[0].span<int64_t>(), ElementsAre(8, 9, 0, 1));
    EXPECT_EQ(data.fills(), packed ? 3 : 1);
  }
}

TEST_F(PrefetchTest, ResumesInTheMiddle) {
  const auto reader = Make(3);
  ASSERT_TRUE(reader->Reset({.epoch = 4, .step = 2, .epoch_end = 6}).ok());
  EXPECT_THAT(Drain(*reader), ElementsAre("4.2:8$", "5.0:0", "5.1:4", "5.2:8$"));
  ASSERT_TRUE(reader->Reset({.epoch = 4, .step = 3, .epoch_end = 6}).ok());
  EXPECT_THAT(Drain(*reader), ElementsAre("5.0:0", "5.1:4", "5.2:8$"));
  ASSERT_TRUE(reader->Reset({.epoch = 6, .step = 0, .epoch_end = 6}).ok());
  EXPECT_THAT(Drain(*reader), ElementsAre());
  EXPECT_THAT(reader->Reset({.step = 4}).message(), HasSubstr("an epoch has only 3 steps"));
}

TEST_F(PrefetchTest, OnDemandNothingIsReadBeforeItIsAskedFor) {
  const auto reader = Make(2, ReadMode::kOnDemand);
  ASSERT_TRUE(reader->Reset({.epoch = 4, .step = 2, .epoch_end = 6}).ok());
  EXPECT_EQ(data_.fills(), 0);
  ASSERT_TRUE(reader->Next(In(30)).ok());
  EXPECT_EQ(data_.fills(), 1);
  EXPECT_THAT(Drain(*reader), ElementsAre("5.0:0", "5.1:4", "5.2:8$"));
  EXPECT_THAT(Drain(*reader), ElementsAre()) << "the end stays the end";
  EXPECT_EQ(reader->stats().batches, 4u);
  EXPECT_EQ(reader->stats().ready, 0u);
  data_.set_bad(5);
  ASSERT_TRUE(reader->Reset({.epoch_end = 1}).ok());
  EXPECT_THAT(Drain(*reader), ElementsAre("0.0:0", HasSubstr("sample 5 is bad")));
  EXPECT_THAT(Drain(*reader), ElementsAre(HasSubstr("sample 5 is bad")));
}

TEST_F(PrefetchTest, RepeatGivesTheFirstBatchForEver) {
  const auto reader = Make(2, ReadMode::kRepeat);
  ASSERT_TRUE(reader->Reset({.epoch_end = 1}).ok());
  const auto first = reader->Next(In(30));
  ASSERT_TRUE(first.ok());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*reader->Next(In(30)), *first);
  EXPECT_LE(data_.fills(), 3) << "the queue is full, and stays so";
  EXPECT_GE(reader->stats().ready, 20u);
}

TEST_F(PrefetchTest, ResetInTheMiddleStartsAgain) {
  const auto reader = Make(1);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(reader->Reset({.epoch_end = 1000}).ok());
    for (int i = 0; i < round % 5; ++i) ASSERT_TRUE(reader->Next(In(30)).ok());
  }
  ASSERT_TRUE(reader->Reset({.epoch_end = 1}).ok());
  EXPECT_THAT(Drain(*reader), ElementsAre("0.0:0", "0.1:4", "0.2:8$"));
}

TEST_F(PrefetchTest, ReadsAheadUpToTheCapacityAndNoFurther) {
  const auto reader = Make(2);
  ASSERT_TRUE(reader->Reset({.epoch_end = 1000}).ok());
  // The reader fills two batches in the queue and one more batch. One buffer stays with the
  // consumer.
  ASSERT_TRUE(data_.WaitForFills(3));
  EXPECT_LE(reader->queue_size(), 2u);
  ASSERT_TRUE(reader->Next(In(30)).ok());
  ASSERT_TRUE(data_.WaitForFills(4));
  EXPECT_LE(data_.fills(), 4);
}

TEST_F(PrefetchTest, BuffersAreUsedAgain) {
  const auto reader = Make(2);
  ASSERT_TRUE(reader->Reset({.epoch_end = 50}).ok());
  std::set<const void*> buffers;
  for (;;) {
    const auto batch = reader->Next(In(30));
    ASSERT_TRUE(batch.ok());
    if (*batch == nullptr) break;
    buffers.insert((*batch)->fields[0].data());
  }
  EXPECT_LE(buffers.size(), 4u);
}

TEST_F(PrefetchTest, ErrorComesAfterTheBatchesBeforeIt) {
  data_.set_bad(9);
  const auto reader = Make(8);
  ASSERT_TRUE(reader->Reset({.epoch_end = 2}).ok());
  EXPECT_THAT(Drain(*reader), ElementsAre("0.0:0", "0.1:4", "numbers: sample 9 is bad"));
  EXPECT_THAT(Drain(*reader), ElementsAre("numbers: sample 9 is bad")) << "the error stays";
  data_.set_bad(~0u);
  ASSERT_TRUE(reader->Reset({.epoch_end = 1}).ok());
  EXPECT_THAT(Drain(*reader), ElementsAre("0.0:0", "0.1:4", "0.2:8$"));
}

TEST_F(PrefetchTest, SlowReaderMeetsTheDeadlineAndIsMeasured) {
  data_.set_blocked(true);
  const auto reader = Make(2);
  ASSERT_TRUE(reader->Reset({.epoch_end = 1}).ok());
  const auto none = reader->Next(SteadyNow() + std::chrono::milliseconds(30));
  EXPECT_EQ(none.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("[TD2008]"));
  EXPECT_GE(reader->stats().wait_seconds, 0.029);
  data_.set_blocked(false);
  EXPECT_THAT(Drain(*reader), ElementsAre("0.0:0", "0.1:4", "0.2:8$"));
}

TEST_F(PrefetchTest, DestructorNeverHangs) {
  { const auto never_started = Make(1); }
  for (int taken = 0; taken < 4; ++taken) {
    const auto reader = Make(1);
    ASSERT_TRUE(reader->Reset({.epoch_end = 1000000}).ok());
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(reader->Next(In(30)).ok());
  }
}

TEST_F(PrefetchTest, RefusesCapacitiesWithoutSense) {
  auto sampler = Sampler::Make({.samples = 10, .global_batch = 4});
  for (const int32_t capacity : {-1, 0, 65537}) {
    const auto reader = Prefetcher::Make(data_, *sampler, capacity, device_);
    EXPECT_THAT(reader.status().message(), HasSubstr("expected 1 to 65536"));
  }
}

}  // namespace
}  // namespace tandem::reader
