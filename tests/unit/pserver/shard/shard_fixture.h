// A shard on the CPU with a clock that the test advances, and short functions that call the shard.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pserver/shard/shard.h"

namespace tandem::pserver {

inline Buffer FloatBuffer(const std::vector<float>& values) {
  BufferPool pool(0);
  Buffer buffer = *pool.Take(values.size() * sizeof(float));
  std::memcpy(buffer.get(), values.data(), values.size() * sizeof(float));
  return buffer;
}

// A log that only collects the log entries of a shard in memory.
class LogInMemory final : public WriteAheadLog {
 public:
  Status Ready(uint64_t /*bytes*/) override { return OkStatus(); }
  void Append(LogEntry entry) override { entries.push_back(std::move(entry)); }
  void WhenLogged(Written done) override { done(OkStatus()); }
  std::vector<LogEntry> entries;
};

class ShardFixture : public testing::Test {
 protected:
  static constexpr uint64_t kIncarnation = 7;

  // Returns a configuration with two variables. One of them is split into two slices.
  static ShardConfig Config(int trainers, UpdatePolicy mode, const std::string& optimizer = "sgd") {
    ShardConfig config{.job = "job", .trainers = trainers, .mode = mode};
    config.optimizer.type = optimizer;
    config.slices = {
        {"fc_0.w", Shape{2, 4}, 0, 4}, {"fc_0.w", Shape{2, 4}, 4, 4}, {"fc_0.b", Shape{4}, 0, 4}};
    return config;
  }
  CallerId Rank(int trainer, uint64_t incarnation = kIncarnation) const {
    return {"job", trainer, incarnation};
  }
  void Make(Shard::Options options = {}) {
    shard_ = std::make_unique<Shard>(std::move(options), clock_, backend_, device_, metrics_);
  }
  // Configures the shard for every trainer and sets every parameter to `value`.
  void Start(const ShardConfig& config, float value = 1.0f) {
    if (!shard_) Make();
    for (int r = 0; r < config.trainers; ++r) {
      ASSERT_TRUE(shard_->Configure(Rank(r), config).ok());
    }
    std::vector<SliceValues> params;
    for (const SliceSpec& s : config.slices) {
      params.push_back({s.variable, s.offset, s.numel,
                        FloatBuffer(std::vector<float>(static_cast<size_t>(s.numel), value))});
    }
    const StatusOr<bool> whole = shard_->InitParams(Rank(0), 0, params, {});
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_TRUE(*whole);
  }
  static PushHead Head(const CallerId& caller, uint64_t sequence, uint64_t step,
                       float rate = 0.5f) {
    PushHead head{{caller, sequence, step, rate}, {}};
    const TensorDesc desc{DType::kF32, Shape{4}};
    head.slices = {{"fc_0.w", 0, desc}, {"fc_0.w", 4, desc}, {"fc_0.b", 0, desc}};
    return head;
  }
  // Pushes a gradient of `value` for every element of every slice in `head`.
  StatusOr<PushOutcome> Push(const PushHead& head, float value) {
    TD_ASSIGN_OR_RETURN(PushTicket ticket, shard_->AdmitPush(head));
    for (size_t i = 0; i < ticket.buffers.size(); ++i) {
      float* out = reinterpret_cast<float*>(ticket.buffers[i].mutable_data());
      std::fill(out, out + head.slices[i].desc.shape.numel(), value);
    }
    return shard_->Push(head, std::move(ticket));
  }
  // Pulls the parameters. The shard must reply before Pull returns. Returns the reply.
  StatusOr<PullResult> PullNow(uint64_t min_version) {
    StatusOr<PullResult> result = Internal("not answered");
    PullQuery query{Rank(0), true, min_version, {}};
    shard_->Pull(query, clock_.Now() + std::chrono::hours(1),
                 [&result](StatusOr<PullResult> r) { result = std::move(r); });
    return result;
  }
  static std::vector<float> Values(const PullResult& result) {
    std::vector<float> all;
    for (const PulledSlice& s : result.slices) {
      const float* v = reinterpret_cast<const float*>(s.values.get()) + s.first;
      all.insert(all.end(), v, v + s.numel);
    }
    return all;
  }
  // Starts a pull of `trainer`, which may wait. *out gets the reply.
  void PullLater(int trainer, uint64_t min_version, Duration timeout,
                 const std::shared_ptr<StatusOr<PullResult>>& out) {
    shard_->Pull({Rank(trainer), false, min_version, {}}, clock_.Now() + timeout,
                 [out](StatusOr<PullResult> r) { *out = std::move(r); });
  }
  static std::shared_ptr<StatusOr<PullResult>> Pending() {
    return std::make_shared<StatusOr<PullResult>>(Unimplemented("pending"));
  }

  FakeClock clock_;
  Metrics metrics_;
  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
  std::unique_ptr<Shard> shard_;
};

}  // namespace tandem::pserver
