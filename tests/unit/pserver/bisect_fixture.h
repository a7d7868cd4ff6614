// Servers that write logs with dense variables and a table, for tests of tandem bisect.
#pragma once

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "pserver/history/bisect.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/durable_shard.h"
#include "pserver/storage/storage.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {

class BisectTest : public ShardFixture {
 protected:
  using Rows = std::map<uint64_t, float>;  // by id: each value of the gradient
  using Result = ServerBisection::Result;
  static constexpr int64_t kDim = 2;

  ~BisectTest() override { Kill(); }

  std::string DirOf(int server) const {
    return absl::StrFormat("%s/pserver-%d/shard-%d", dir_, server, server);
  }
  // Starts a server on its directory. `keep`: bytes of the log that checkpoints keep.
  void Open(int server = 0, uint64_t keep = 1 << 20) {
    Kill();
    std::filesystem::create_directories(DirOf(server));
    storage_ = *OpenRocksdbStorage(DirOf(server), nullptr, {.log_keep_bytes = keep});
    DurableShard::Options options;
    options.logged = true;
    options.log.on_work = [] {};
    options.later = [](const std::function<void()>& work) {
      work();
      return OkStatus();
    };
    options.aside = [](const std::function<void()>& work) { work(); };
    options.on_restore_begin = [] { return OkStatus(); };
    options.on_restore_end = [](DurableShard::RestoreEnd) { return OkStatus(); };
    durable_ = std::make_unique<DurableShard>(options, storage_.get(), clock_, backend_, device_,
                                              metrics_);
    const auto version = durable_->Recover();
    ASSERT_TRUE(version.ok()) << version.status();
    shard_.reset(&durable_->shard());  // for the functions of the fixture
  }
  // Sets up the job: each dense value is 1, and the table is empty.
  void Configure(int trainers, UpdatePolicy mode, const std::string& optimizer = "sgd") {
    ShardConfig config = Config(trainers, mode, optimizer);
    config.tables = {{.variable = "emb",
                      .shape = Shape{1000, kDim},
                      .init = {graph::Init::kUniform, -0.1, 0.1},
                      .seed = 3,
                      .bucket_end = kRowBuckets}};
    config.nonfinite = NonfinitePolicy::kApply;
    if (optimizer == "momentum") config.optimizer.attrs["mu"] = 0.9;
    std::vector<SliceValues> params;
    for (int r = 0; r < trainers; ++r) ASSERT_TRUE(shard_->Configure(Rank(r), config).ok());
    for (const SliceSpec& s : config.slices) {
      params.push_back({s.variable, s.offset, s.numel,
                        FloatBuffer(std::vector<float>(static_cast<size_t>(s.numel), 1))});
    }
    const auto whole =
        shard_->InitParams(Rank(0), 0, params, {}, {{.variable = "emb", .last = true}});
    ASSERT_TRUE(whole.ok() && *whole) << whole.status();
  }
  void Start(int trainers, UpdatePolicy mode, const std::string& optimizer = "sgd") {
    Open();
    Configure(trainers, mode, optimizer);
  }
  // Ends the server and leaves its directory.
  void Kill() {
    (void)shard_.release();
    durable_.reset();
    storage_.reset();
  }

  // Pushes gradients: `dense` for each dense value, and those of rows. The pushes of a trainer are
  // its steps 0, 1, 2 and so on, unless `step` is given.
  void PushOf(int trainer, float dense, const Rows& rows, std::optional<uint64_t> step = {}) {
    const uint64_t sequence = ++sequences_[trainer];
    PushHead head = Head(Rank(trainer, incarnation_), sequence, step.value_or(sequence - 1), 1);
    head.numbers = {{sequence}, {sequence - 1}};
    const auto n = static_cast<int64_t>(rows.size());
    head.slices.push_back({"emb", 0, {DType::kI64, Shape{n}}});
    head.slices.push_back({"emb", 0, {DType::kF32, Shape{n, kDim}}});
    auto ticket = shard_->AdmitPush(head);
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    for (size_t i = 0; i < 3; ++i) {
      std::fill_n(reinterpret_cast<float*>(ticket->buffers[i].mutable_data()), 4, dense);
    }
    auto* id = reinterpret_cast<uint64_t*>(ticket->buffers[3].mutable_data());
    auto* value = reinterpret_cast<float*>(ticket->buffers[4].mutable_data());
    for (const auto& [row, gradient] : rows) {
      *id++ = row;
      value = std::fill_n(value, kDim, gradient);
    }
    const auto pushed = shard_->Push(head, *std::move(ticket));
    ASSERT_TRUE(pushed.ok()) << pushed.status();
    durable_->log()->Turn();
  }
  void Snapshot(uint64_t number) {
    const auto image = shard_->checkpoints().Take();
    ASSERT_TRUE(image.ok()) << image.status();
    ASSERT_TRUE(storage_->WriteGlobalSnapshot({.number = number}, *image, {}).ok());
  }

  ServerBisection Bisect(const StateCondition& condition, int server = 0) {
    const auto found = BisectServer(DirOf(server), server, condition);
    EXPECT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(found.ok() && found->has_value());
    return found.ok() && *found ? **found : ServerBisection();
  }

  const TempDir temp_;
  const std::string dir_ = temp_.path();
  uint64_t incarnation_ = kIncarnation;
  std::map<int, uint64_t> sequences_;  // by trainer: number of its newest push
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<DurableShard> durable_;
};

}  // namespace tandem::pserver
