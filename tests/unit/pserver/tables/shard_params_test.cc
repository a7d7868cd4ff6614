// Tests slices and tables under one index, without a shard.
#include "pserver/tables/shard_params.h"

#include <cstring>

#include "gmock/gmock.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kIndexOfTable = 2;

class ShardParamsTest : public testing::Test {
 protected:
  // Creates two slices and a table of 2 columns with all its buckets. The first slice is movable
  // only if `bucket` is not 0.
  void Make(UpdatePolicy mode, int bucket = 0) {
    config_ = {.job = "job", .trainers = 2, .mode = mode};
    config_.optimizer.type = "sgd";
    config_.slices = {{"w", Shape{3}, 0, 3, bucket}, {"b", Shape{1}, 0, 1}};
    config_.tables = {{.variable = "t", .shape = {100, 2}, .init = {}, .rules = {}}};
    config_.tables[0].bucket_end = kRowBuckets;
    params_ = *ShardParams::Make(config_, {.slice_backend = backend_,
                                           .slice_device = device_,
                                           .row_backend = backend_,
                                           .row_device = device_,
                                           .arena = nullptr,
                                           .table_memory = {}});
  }
  // Returns the head of a push of all slices, and of rows 4 and 9.
  static PushHead Push(int trainer) {
    PushHead head{{.caller = {"job", trainer, 1}, .sequence = 1, .learning_rate = 1}, {}};
    head.slices = {{"t", 0, {DType::kI64, {2}}},
                   {"t", 0, {DType::kF32, {2, 2}}},
                   {"b", 0, {DType::kF32, {1}}},
                   {"w", 0, {DType::kF32, {3}}}};
    return head;
  }
  PushTicket Ticket(const PushHead& head) {
    PushTicket ticket{.slices = *params_->FindPush(head, {})};
    const int64_t ids[] = {4, 9};
    Buffer rows = *params_->slices().pool().Take(sizeof(ids));
    std::memcpy(rows.get(), ids, sizeof(ids));
    ticket.buffers = {rows, FloatBuffer({1, 2, 3, 4}), FloatBuffer({5}), FloatBuffer({6, 7, 8})};
    return ticket;
  }
  void Init() {
    ASSERT_TRUE(params_
                    ->Init(0, {{"w", 0, 3, FloatBuffer({0, 0, 0})}, {"b", 0, 1, FloatBuffer({0})}},
                           {}, {{.variable = "t", .ids = {}, .content = {}, .last = true}})
                    .ok());
  }
  std::vector<float> Row(uint64_t id) {
    const PulledSlice row = *params_->Rows({"t", {id}}, /*previous=*/false);
    const auto values = Floats(row.values, row.numel);
    return {values.begin(), values.end()};
  }
  std::vector<float> Slice(int slice) {
    const int64_t numel = params_->slices().spec(slice).numel;
    const Buffer values = *params_->slices().Params(slice);
    return {Floats(values, numel).begin(), Floats(values, numel).end()};
  }

  const exec::Backend backend_ = exec::Backend::Cpu();
  CpuDevice device_;
  ShardConfig config_;
  std::unique_ptr<ShardParams> params_;
};

TEST_F(ShardParamsTest, TablesCountOnBehindSlices) {
  Make(UpdatePolicy::kSync);
  EXPECT_THAT(*params_->FindPush(Push(0), {}), ElementsAre(kIndexOfTable, kIndexOfTable, 1, 0));
  EXPECT_FALSE(params_->IsTable(1));
  EXPECT_TRUE(params_->IsTable(kIndexOfTable));
}

TEST_F(ShardParamsTest, FirstValuesAreGivenOnceAllOfAMessageCouldBeSet) {
  Make(UpdatePolicy::kSync);
  const SliceValues w{"w", 0, 3, FloatBuffer({1, 2, 3})};
  EXPECT_EQ(params_->Init(0, {w, {"b", 0, 2, FloatBuffer({1, 2})}}, {}, {}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(params_->progress().count(), 0u);
  ASSERT_TRUE(params_->Init(0, {w}, {}, {}).ok());
  ASSERT_TRUE(params_->Init(0, {w}, {}, {}).ok());  // a client may repeat the message
  EXPECT_EQ(params_->progress().count(), 1u);
  const std::vector<bool> before = params_->progress().flags();
  Init();
  EXPECT_TRUE(params_->progress().whole());
  params_->progress().Set(before);
  EXPECT_FALSE(params_->progress().whole());
  EXPECT_EQ(params_->progress().count(), 1u);
  EXPECT_EQ(params_->progress().size(), 3u);
}

TEST_F(ShardParamsTest, AStepIsWhatAllGaveOfSlicesAndTables) {
  Make(UpdatePolicy::kSync);
  Init();
  for (const int trainer : {0, 1}) {
    const PushHead head = Push(trainer);
    EXPECT_TRUE(params_->step().IsWholeStep(head));
    EXPECT_FALSE(params_->step().GaveAll(trainer));
    PushTicket ticket = Ticket(head);
    ASSERT_TRUE(params_->PrepareRows(head, ticket).ok());
    params_->step().Gather(head, ticket);
    EXPECT_TRUE(params_->step().GaveAll(trainer));
    EXPECT_THAT(params_->FindPush(head, {}).status().message(),
                HasSubstr("contains two gradients"));
  }
  params_->step().Drop(1);
  EXPECT_FALSE(params_->step().GaveAll(1));
  EXPECT_FALSE(params_->step().NothingGathered());
  ASSERT_TRUE(params_->ApplyGathered(std::vector<int>{0}, 1.0f, 0, 0).ok());
  EXPECT_TRUE(params_->step().NothingGathered());
  EXPECT_THAT(Slice(0), ElementsAre(-6, -7, -8));
  EXPECT_THAT(Slice(1), ElementsAre(-5));
  EXPECT_THAT(Row(4), ElementsAre(-1, -2));
  EXPECT_THAT(Row(9), ElementsAre(-3, -4));
}

// A server must not keep the event time of a push that is not part of the step.
TEST_F(ShardParamsTest, TheEventTimeOfAStepIsThatOfItsPushesToTables) {
  Make(UpdatePolicy::kSync);
  Init();
  const auto gather = [&](int trainer, int64_t event_time_ms) {
    PushHead head = Push(trainer);
    head.event_time_ms = event_time_ms;
    PushTicket ticket = Ticket(head);
    params_->step().Gather(head, ticket);
  };
  const std::vector<int> ranks = {0, 1};
  gather(0, 1000);
  gather(1, 3000);
  EXPECT_EQ(params_->step().EventTime(ranks), 3000);
  params_->step().Drop(1);  // the trainer was lost
  EXPECT_EQ(params_->step().EventTime(ranks), 1000);
  gather(1, 2000);
  EXPECT_EQ(params_->step().EventTime(ranks), 2000);
  ASSERT_TRUE(params_->ApplyGathered(ranks, 1.0f, 0, 2000).ok());
  EXPECT_EQ(params_->step().EventTime(ranks), 0);
  PushHead dense{{.caller = {"job", 0, 1}, .sequence = 2, .learning_rate = 1}, {}};
  dense.event_time_ms = 5000;
  dense.slices = {{"b", 0, {DType::kF32, {1}}}};
  PushTicket ticket{.slices = *params_->FindPush(dense, {}), .buffers = {}};
  ticket.buffers = {FloatBuffer({5})};
  params_->step().Gather(dense, ticket);
  EXPECT_EQ(params_->step().EventTime(ranks), 0) << "only the owner of the slice has this push";
}

TEST_F(ShardParamsTest, APushIsAppliedAtOnce) {
  Make(UpdatePolicy::kASync);
  Init();
  const PushHead head = Push(0);
  for (uint64_t version : {0, 1}) {
    const PushTicket ticket = Ticket(head);
    ASSERT_TRUE(params_->PrepareRows(head, ticket).ok());
    ASSERT_TRUE(params_->Apply(head, ticket, version, 0).ok());
  }
  EXPECT_THAT(Slice(0), ElementsAre(-12, -14, -16));
  EXPECT_THAT(Row(9), ElementsAre(-6, -8));
}

// Row buckets are numbered from 0 on, and slices that cannot move have bucket 0. An offer of row
// bucket 0 must not affect these slices.
TEST_F(ShardParamsTest, ABucketOfRowsThatIsOfferedIsNoSlice) {
  Make(UpdatePolicy::kSync, kRowBuckets);
  MoveState moves;
  moves.offered = {{0, 1}, {kRowBuckets, 1}};
  ASSERT_TRUE(params_->PlaceBuckets(moves, /*server=*/0).ok());
  EXPECT_FALSE(params_->Serves(0));
  EXPECT_TRUE(params_->Serves(1));
  EXPECT_FALSE(params_->Serves(kRowBuckets));
  EXPECT_FALSE(params_->slices().served(0));
  EXPECT_TRUE(params_->slices().served(1));
  EXPECT_EQ(params_->FindRange({"b", 0, 1}, moves).value_or(-1), 1);
  EXPECT_EQ(params_->FindRange({"w", 0, 1}, moves).status().code(), StatusCode::kOutOfRange);
}

TEST_F(ShardParamsTest, ASliceThatGoesIsTheOneThatComes) {
  Make(UpdatePolicy::kSync, kRowBuckets + 3);
  Init();
  const std::vector<BucketMove> moves = {{kRowBuckets + 3, 1, 1}};
  const std::vector<SliceMigration> parcels =
      *params_->slices().Migrations(moves, /*previous=*/false);
  ASSERT_EQ(parcels.size(), 1u);
  ASSERT_TRUE(params_->Drop(kRowBuckets + 3).ok());
  EXPECT_EQ(params_->progress().size(), 2u);
  EXPECT_FALSE(params_->Serves(kRowBuckets + 3));
  EXPECT_TRUE(params_->IsTable(1));
  ASSERT_TRUE(params_->Add(parcels[0]).ok());
  EXPECT_TRUE(params_->Serves(kRowBuckets + 3));
  EXPECT_EQ(params_->slices().spec(1).variable, "w");
  EXPECT_TRUE(params_->progress().whole());
}

}  // namespace
}  // namespace tandem::pserver
