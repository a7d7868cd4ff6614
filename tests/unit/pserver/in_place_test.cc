// Gradients that are read where they came: the same bits, and left as they are.
#include "gmock/gmock.h"
#include "pserver/update_log.h"
#include "pserver/update_program.h"
#include "tests/unit/pserver/shard_fixture.h"

namespace tandem {
namespace {

TEST(UpdateProgramTest, AGradientElsewhereGivesTheSameBits) {
  const Backend backend = Backend::Cpu();
  CpuDevice device;
  const std::vector<OptimizerSpec> optimizers = {{"sgd", {}},
                                                 {"momentum", {}},
                                                 {"adam", {}},
                                                 {"sgd", {{"clip_min", -0.5}, {"clip_max", 0.25}}},
                                                 {"momentum", {{"l2_decay", 0.1}}},
                                                 {"sgd", {{"clip_norm", 1.0}}}};
  for (const OptimizerSpec& optimizer : optimizers) {
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
    // And its own again.
    for (auto* update : {here.get(), there.get()}) {
      std::fill(update->grad().begin(), update->grad().end(), 0.125f);
      ASSERT_TRUE(update->Apply(0.1f).ok());
    }
    EXPECT_TRUE(std::ranges::equal(here->param(), there->param())) << optimizer.type;
  }
}

class InPlaceTest : public ShardFixture {
 protected:
  // Whether a shard of `mode` takes values where they are.
  bool Takes(ShardMode mode, Shard::Options options = {}) {
    Make(std::move(options));
    Start(Config(1, mode));
    const std::vector<float> values = {1, 2, 3, 4};
    const void* const where[] = {values.data(), values.data(), nullptr};
    const PushHead head = Head(Rank(0), 1, 0);
    PushTicket ticket = *shard_->AdmitPush(head, where);
    EXPECT_NE(ticket.buffers[2].get(), nullptr);
    const bool takes = ticket.buffers[0].get() == static_cast<const void*>(values.data());
    EXPECT_EQ(ticket.buffers[1].get() == static_cast<const void*>(values.data()), takes);
    for (size_t i = takes ? 2 : 0; i < 3; ++i) {
      std::memcpy(ticket.buffers[i].get(), values.data(), 16);
    }
    EXPECT_TRUE(shard_->Push(head, std::move(ticket)).ok());
    EXPECT_THAT(Values(*PullNow(1)),
                testing::ElementsAre(0.5, 0, -0.5, -1, 0.5, 0, -0.5, -1, 0.5, 0, -0.5, -1));
    return takes;
  }
};

class NoLog final : public UpdateLog {
 public:
  Status Ready() override { return OkStatus(); }
  void Append(LogEntry entry) override { entries.push_back(std::move(entry)); }
  void WhenWritten(Written done) override { done(OkStatus()); }
  std::vector<LogEntry> entries;
};

TEST_F(InPlaceTest, ValuesAreTakenWhereTheyLieUnlessTheyAreKept) {
  EXPECT_TRUE(Takes(ShardMode::kASync));
  EXPECT_FALSE(Takes(ShardMode::kSync));
  NoLog log;
  EXPECT_FALSE(Takes(ShardMode::kASync, {.log = &log}));
  EXPECT_EQ(log.entries.back().kind, LogEntry::Kind::kPush);
  shard_.reset();  // before the log
}

}  // namespace
}  // namespace tandem
