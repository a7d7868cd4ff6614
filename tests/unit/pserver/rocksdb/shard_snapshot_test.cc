// Tests snapshots of a shard whose data are copied while pushes continue.
#include <atomic>
#include <numeric>
#include <thread>

#include "common/tables/row_buckets.h"
#include "pserver/shard/checkpoint_calls.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

// The shard has several times as much data as one copy operation copies.
constexpr int kSlices = 64;
constexpr int64_t kNumel = 16 << 10, kRows = 32 << 10, kDim = 16;

class ImageTest : public ShardFixture {
 protected:
  ImageTest() {
    // With momentum, each variable has parameters and a slot.
    config_.optimizer = {"momentum", {{"lazy_mode", true}}};
    for (int s = 0; s < kSlices; ++s) {
      const std::string name = "w" + std::to_string(s);
      config_.slices.push_back({name, Shape{kNumel}, 0, kNumel});
      params_.push_back({name, 0, kNumel, FloatBuffer(std::vector<float>(kNumel, 1.0f))});
      head_.slices.push_back({name, 0, {DType::kF32, Shape{kNumel}}});
    }
    config_.tables = {{"emb", Shape{kRows, kDim}, {graph::Init::kConstant}, 0, 0, kRowBuckets, {}}};
    head_.slices.push_back({"emb", 0, {DType::kI64, Shape{kRows}}});
    head_.slices.push_back({"emb", 0, {DType::kF32, Shape{kRows, kDim}}});
  }
  void Begin() {
    ASSERT_TRUE(shard_->Configure(Rank(0), config_).ok());
    RowValues rows{.variable = "emb"};
    rows.last = true;
    const StatusOr<bool> whole = shard_->InitParams(Rank(0), 0, params_, {}, {rows});
    ASSERT_TRUE(whole.ok() && *whole) << whole.status();
  }
  // Pushes gradients that change all elements of all slices and rows by the same amount.
  Status PushAll(uint64_t number) {
    head_.sequence = number;
    TD_ASSIGN_OR_RETURN(PushTicket ticket, shard_->AdmitPush(head_));
    for (size_t i = 0; i < ticket.buffers.size(); ++i) {
      const int64_t numel = head_.slices[i].desc.shape.numel();
      if (head_.slices[i].desc.dtype == DType::kI64) {
        auto* const ids = reinterpret_cast<int64_t*>(ticket.buffers[i].mutable_data());
        std::iota(ids, ids + numel, 0);
      } else {
        std::fill_n(reinterpret_cast<float*>(ticket.buffers[i].mutable_data()), numel, 1e-3f);
      }
    }
    return shard_->Push(head_, std::move(ticket)).status();
  }
  // Expects that all slices and rows of the snapshot have the version that the snapshot names.
  static void ExpectOneMoment(const ShardSnapshot& image) {
    const auto first = [](const Buffer& b) { return *reinterpret_cast<const float*>(b.get()); };
    EXPECT_EQ(image.marks[0].applied.highest(), image.version);
    const float param = first(image.slices[0].param), slot = first(image.slices[0].slots[0].values);
    EXPECT_TRUE(image.version == 0 || param < 1.0f);
    for (const SliceSnapshot& slice : image.slices) {
      EXPECT_EQ(first(slice.param), param) << "version " << image.version;
      EXPECT_EQ(first(slice.slots[0].values), slot) << "version " << image.version;
    }
    size_t rows_found = 0;
    for (const auto& [bucket, rows] : image.tables[0].buckets) {
      rows_found += rows.ids.size();
      for (size_t i = 0; i < rows.ids.size(); ++i) {
        ASSERT_EQ(rows.use[i].show, static_cast<float>(image.version));
        ASSERT_EQ(rows.content[i * 2 * kDim + kDim], slot);
      }
    }
    EXPECT_EQ(rows_found, image.version == 0 ? 0u : static_cast<size_t>(kRows));
  }

  ShardConfig config_{.job = "job", .trainers = 1, .mode = UpdatePolicy::kASync};
  std::vector<SliceValues> params_;
  PushHead head_{{Rank(0), 0, 0, 1.0f}, {}};
};

TEST_F(ImageTest, IsOfOneMomentWhilePushesGoOn) {
  constexpr int kPushes = 150;
  int automatic = 0;
  Make({.checkpoint_every_steps = 7, .on_checkpoint = [&](uint64_t, const SnapshotFn& copy) {
          const StatusOr<ShardSnapshot> image = copy();
          ASSERT_TRUE(image.ok()) << image.status();
          EXPECT_EQ(image->version % 7, 0u);
          ExpectOneMoment(*image);
          ++automatic;
        }});
  Begin();
  std::thread pusher([&] {
    for (uint64_t n = 1; n <= kPushes; ++n) ASSERT_TRUE(PushAll(n).ok());
  });
  for (int i = 0; i < 20; ++i) {
    const StatusOr<ShardSnapshot> image = shard_->checkpoints().Take();
    EXPECT_TRUE(image.ok()) << image.status();
    if (image.ok()) ExpectOneMoment(*image);
  }
  pusher.join();
  EXPECT_EQ(automatic, kPushes / 7);
  EXPECT_EQ(shard_->checkpoints().Take()->version, uint64_t{kPushes});
}

// A snapshot has the values of the time of its request, even if it is copied later. A snapshot may
// also never be copied.
TEST_F(ImageTest, IsOfTheMomentAtWhichItWasAskedFor) {
  std::vector<SnapshotFn> copies;
  Make({.checkpoint_every_steps = 2,
        .on_checkpoint = [&](uint64_t, SnapshotFn copy) { copies.push_back(std::move(copy)); }});
  Begin();
  for (uint64_t n = 1; n <= 5; ++n) ASSERT_TRUE(PushAll(n).ok());
  ASSERT_EQ(copies.size(), 2u);  // the second snapshot was requested before the first was copied
  for (size_t i = 0; i < 2; ++i) {
    const StatusOr<ShardSnapshot> image = copies[i]();
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->version, 2 * (i + 1));
    ExpectOneMoment(*image);
  }
  copies.clear();
  ASSERT_TRUE(PushAll(6).ok());
  copies.clear();
  ASSERT_TRUE(PushAll(7).ok());
  ASSERT_TRUE(PushAll(8).ok());
  const ShardSnapshot now = *shard_->checkpoints().Take();
  EXPECT_EQ(now.version, 8u);
  ExpectOneMoment(now);
  ASSERT_TRUE(shard_->checkpoints().Restore(now).ok());
  EXPECT_EQ(copies[0]().status().code(), StatusCode::kAborted);
  copies.clear();
}

}  // namespace
}  // namespace tandem::pserver
