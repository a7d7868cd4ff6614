// A shard that reads gradients in place from the receive buffer must give the same bits, and must
// not change the buffer.
#include "gmock/gmock.h"
#include "pserver/state/wal.h"
#include "pserver/tables/update_program.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

#include <variant>

namespace tandem::pserver {
namespace {

TEST(UpdateProgramTest, AGradientElsewhereGivesTheSameBits) {
  const exec::Backend backend = exec::Backend::Cpu();
  CpuDevice device;
  const std::vector<graph::OptimizerSpec> optimizers = {
      {"sgd", {}},
      {"momentum", {}},
      {"adam", {}},
      {"sgd", {{"clip_min", -0.5}, {"clip_max", 0.25}}},
      {"momentum", {{"l2_decay", 0.1}}},
      {"sgd", {{"clip_norm", 1.0}}}};
  for (const graph::OptimizerSpec& optimizer : optimizers) {
    auto here = *UpdateProgram::Make("w", 100, optimizer, backend, device);
    auto there = *UpdateProgram::Make("w", 100, optimizer, backend, device);
    for (int step = 0; step < 3; ++step) {
      std::vector<float> gradient(100);
      for (size_t i = 0; i < 100; ++i) gradient[i] = std::sin(static_cast<float>(i * 3 + step));
      const auto before = gradient;
      std::copy(gradient.begin(), gradient.end(), here->grad().begin());
      ASSERT_TRUE(here->Apply(0.1f).ok());
      ASSERT_TRUE(there->Apply(gradient.data(), 0.1f).ok());
      EXPECT_EQ(gradient, before) << optimizer.type;
      EXPECT_TRUE(std::ranges::equal(here->param(), there->param())) << optimizer.type << step;
    }
    // After that, both objects must apply a gradient from their own buffers.
    for (auto* update : {here.get(), there.get()}) {
      std::fill(update->grad().begin(), update->grad().end(), 0.125f);
      ASSERT_TRUE(update->Apply(0.1f).ok());
    }
    EXPECT_TRUE(std::ranges::equal(here->param(), there->param())) << optimizer.type;
  }
}

class InPlaceTest : public ShardFixture {
 protected:
  // Returns whether a shard of `mode` reads the values of a push in place.
  bool Takes(UpdatePolicy mode, Shard::Options options = {}) {
    Make(std::move(options));
    Start(Config(1, mode));
    const std::vector<float> values = {1, 2, 3, 4};
    const void* const where[] = {values.data(), values.data(), nullptr};
    const PushHead head = Head(Rank(0), 1, 0);
    PushTicket ticket = *shard_->AdmitPush(head, where);
    EXPECT_NE(ticket.buffers[2].data(), nullptr);
    const bool takes = ticket.buffers[0].data() == static_cast<const void*>(values.data());
    EXPECT_EQ(ticket.buffers[1].data() == static_cast<const void*>(values.data()), takes);
    for (size_t i = takes ? 2 : 0; i < 3; ++i) {
      std::memcpy(ticket.buffers[i].mutable_data(), values.data(), 16);
    }
    EXPECT_TRUE(shard_->Push(head, std::move(ticket)).ok());
    EXPECT_THAT(Values(*PullNow(1)),
                testing::ElementsAre(0.5, 0, -0.5, -1, 0.5, 0, -0.5, -1, 0.5, 0, -0.5, -1));
    return takes;
  }
};

TEST_F(InPlaceTest, ValuesAreTakenWhereTheyLieUnlessTheyAreKept) {
  EXPECT_TRUE(Takes(UpdatePolicy::kASync));
  EXPECT_TRUE(Takes(UpdatePolicy::kSync));  // true: a single trainer's step waits for no other push
  LogInMemory log;
  EXPECT_FALSE(Takes(UpdatePolicy::kASync, {.log = &log}));
  EXPECT_TRUE(std::holds_alternative<PushRecord>(log.entries.back().record));
  shard_.reset();  // the shard ends before its log
}

// In sync mode, the shard reads only the last push of a step in place from the buffer of the
// message.
TEST_F(InPlaceTest, OnlyTheLastPushOfAStepIsTakenWhereItLies) {
  Make();
  Start(Config(2, UpdatePolicy::kSync));
  const std::vector<float> values = {1, 2, 3, 4}, others = {3, 2, 1, 0};
  const auto push = [&](int rank, const std::vector<float>& from) {
    const void* const where[] = {from.data(), from.data(), from.data()};
    const PushHead head = Head(Rank(rank), 1, 0);
    PushTicket ticket = *shard_->AdmitPush(head, where);
    const bool takes = ticket.buffers[0].data() == static_cast<const void*>(from.data());
    for (PushBytes& buffer : ticket.buffers) {
      if (!takes) std::memcpy(buffer.mutable_data(), from.data(), 16);
    }
    EXPECT_TRUE(shard_->Push(head, std::move(ticket)).ok());
    return takes;
  };
  EXPECT_FALSE(push(0, values));
  EXPECT_TRUE(push(1, others));
  EXPECT_THAT(Values(*PullNow(1)),
              testing::ElementsAre(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
}

// The shard admitted a push as the last push of its step. Another trainer restarts before the push
// is applied. The step must wait again, so the shard must copy the push.
TEST_F(InPlaceTest, WhatWaitsAfterAllIsCopied) {
  Make();
  Start(Config(2, UpdatePolicy::kSync));
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1).ok());
  std::vector<float> values(4, 3);
  const void* const where[] = {values.data(), values.data(), values.data()};
  const PushHead head = Head(Rank(1), 1, 0);
  PushTicket ticket = *shard_->AdmitPush(head, where);
  ASSERT_EQ(ticket.buffers[0].data(), static_cast<const void*>(values.data()));
  CallerId anew = Rank(0);
  ++anew.incarnation;
  ASSERT_TRUE(shard_->Greet(anew).ok());  // drops the push of the trainer's older incarnation
  ASSERT_TRUE(shard_->Push(head, std::move(ticket)).ok());
  std::fill(values.begin(), values.end(), 1e6f);  // callers may change the buffer after the call
  ASSERT_TRUE(Push(Head(anew, 1, 0), 1).ok());
  EXPECT_THAT(Values(*PullNow(1)),
              testing::ElementsAre(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
}

}  // namespace
}  // namespace tandem::pserver
