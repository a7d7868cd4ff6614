// The state that the parts of a shard share, on the CPU, with a clock that the test advances.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "pserver/shard/bucket_migrations.h"
#include "pserver/shard/push_gate.h"
#include "pserver/shard/push_replay.h"
#include "pserver/shard/shard_state.h"
#include "pserver/shard/trainers/global_snapshot_hold.h"
#include "pserver/state/shard_counters.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {

class PartsTest : public testing::Test {
 protected:
  static constexpr uint64_t kIncarnation = 7;

  // Returns a configuration with two trainers, a slice "w" of 4 elements, and a table "emb" with
  // all row buckets.
  static ShardConfig Config(UpdatePolicy mode) {
    ShardConfig config{.job = "job", .trainers = 2, .mode = mode};
    config.optimizer.type = "sgd";
    config.slices = {{"w", Shape{4}, 0, 4}};
    config.tables = {{.variable = "emb",
                      .shape = Shape{1000, 2},
                      .init = {graph::Init::kUniform, -1, 1},
                      .seed = 3,
                      .bucket_begin = 0,
                      .bucket_end = kRowBuckets,
                      .rules = {}}};
    return config;
  }
  // Starts the shard's parts for a job whose two trainers have called.
  void Start(UpdatePolicy mode) {
    const ShardConfig config = Config(mode);
    const ParamsFactory factory(options_, backend_, device_);
    state_ = std::make_unique<ShardState>(options_, clock_, metrics_);
    state_->SetUp(config, *factory.Make(config));
    ASSERT_TRUE(state_->params
                    ->Init(0, {{"w", 0, 4, FloatBuffer({1, 1, 1, 1})}}, {},
                           {{.variable = "emb", .ids = {}, .content = {}, .last = true}})
                    .ok());
    for (TrainerRegistry::Trainer& t : state_->trainers) t.incarnation = kIncarnation;
    ASSERT_TRUE(state_->initialised());
  }
  static PushHead Head(int trainer, uint64_t sequence, uint64_t step, float rate = 0.5f) {
    PushHead head{{{"job", trainer, kIncarnation}, sequence, step, rate}, {}};
    head.slices = {{"w", 0, {DType::kF32, Shape{4}}}};
    return head;
  }
  // Applies a gradient of ones to the slice, and increases the version by one.
  void ApplyOnes() {
    PushTicket ticket{.slices = {0}, .buffers = {FloatBuffer({1, 1, 1, 1})}};
    ASSERT_TRUE(state_->params->Apply(Head(0, 1, 0), ticket, state_->version, 0).ok());
    ++state_->version;
  }

  ShardOptions options_;
  FakeClock clock_;
  Metrics metrics_;
  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
  LogInMemory log_;
  DeltaBase base_;
  std::unique_ptr<ShardState> state_;
};

}  // namespace tandem::pserver
