// Shards between which row buckets move, and a channel that calls these shards in the process of
// the test.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "proto/pserver.pb.h"
#include "pserver/client/moves/bucket_migrator.h"
#include "pserver/service/move_calls.h"
#include "pserver/shard/migration_calls.h"
#include "pserver/state/bucket_move.h"
#include "tests/sim/bytes.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {

using std::chrono::seconds;

inline constexpr int64_t kDim = 3, kHeight = 1 << 20;
inline constexpr uint64_t kIncarnation = 7;

// Returns the `n`-th id that belongs to the bucket.
inline uint64_t IdIn(int bucket, int n = 0) {
  for (uint64_t id = 0;; ++id) {
    if (RowBucket(id) == bucket && n-- == 0) return id;
  }
}

class MovesTest : public testing::Test {
 protected:
  ShardConfig Config(int server, int servers, const std::string& optimizer = "momentum") const {
    ShardConfig config{.job = "job", .trainers = 2, .mode = mode_};
    config.each_step_once = each_step_once_;
    config.optimizer = {optimizer, {}};
    if (optimizer == "momentum") config.optimizer.attrs["mu"] = 0.9;
    config.tables = {{.variable = "emb",
                      .shape = Shape{kHeight, kDim},
                      .init = {graph::Init::kUniform, -1, 1},
                      .seed = 3,
                      .bucket_begin = FirstBucket(server, servers),
                      .bucket_end = FirstBucket(server + 1, servers),
                      .rules = {}}};
    return config;
  }
  std::unique_ptr<Shard> Make(int index) {
    return std::make_unique<Shard>(Shard::Options{.index = index}, clock_, backend_, device_,
                                   metrics_);
  }
  std::unique_ptr<Shard> Start(int index, int servers, const std::string& optimizer = "momentum") {
    auto shard = Make(index);
    const ShardConfig config = Config(index, servers, optimizer);
    for (int t : {0, 1}) {
      EXPECT_TRUE(shard->Configure({"job", t, kIncarnation}, config).ok());
    }
    const auto whole =
        shard->InitParams({"job", 0, kIncarnation}, 0, {}, {},
                          {{.variable = "emb", .ids = {}, .content = {}, .last = true}});
    EXPECT_TRUE(whole.ok() && *whole) << whole.status();
    return shard;
  }
  static PushHead Head(uint64_t sequence, size_t rows, uint64_t generation = 0, int trainer = 0) {
    const auto n = static_cast<int64_t>(rows);
    PushHead head{{{"job", trainer, kIncarnation}, sequence, sequence, 0.5f}, {}};
    head.slices = {{"emb", 0, {DType::kI64, Shape{n}}}, {"emb", 0, {DType::kF32, Shape{n, kDim}}}};
    head.generation = generation;
    return head;
  }
  // Pushes a gradient for `ids`. All elements of the gradient are `value`.
  static StatusOr<PushOutcome> Push(Shard& shard, const PushHead& head,
                                    const std::vector<uint64_t>& ids, float value = 1) {
    TD_ASSIGN_OR_RETURN(PushTicket ticket, shard.AdmitPush(head));
    if (!ticket.duplicate()) {
      std::copy(ids.begin(), ids.end(),
                reinterpret_cast<uint64_t*>(ticket.buffers[0].mutable_data()));
      auto* const values = reinterpret_cast<float*>(ticket.buffers[1].mutable_data());
      std::fill_n(values, ids.size() * kDim, value);
    }
    return shard.Push(head, std::move(ticket));
  }
  StatusOr<std::vector<float>> Pull(Shard& shard, const std::vector<uint64_t>& ids,
                                    PullQuery query) {
    StatusOr<std::vector<float>> rows = Internal("not answered");
    query.rows = {{"emb", ids}};
    shard.Pull(query, clock_.Now() + seconds(1), [&rows](const StatusOr<PullResult>& result) {
      if (!result.ok()) return void(rows = result.status());
      const auto* const v = reinterpret_cast<const float*>(result->slices[0].values.get());
      rows = std::vector<float>(v, v + result->slices[0].numel);
    });
    return rows;
  }
  StatusOr<std::vector<float>> Pull(Shard& shard, const std::vector<uint64_t>& ids) {
    return Pull(shard, ids,
                {.caller = {"job", 0, 0}, .observer = true, .ranges = {}, .at_version = {}});
  }
  StatusOr<BucketMigration> Freeze(Shard& shard, const std::vector<int>& buckets, int target) {
    return shard.migrations().Freeze("job", {buckets, target, "host:1", seconds(2)});
  }
  static Status Tell(Shard& shard, const BucketMap& map) {
    return shard.migrations().Exchange({"job", 0, 0}, /*observer=*/true, map).status();
  }
  Status Move(Shard& from, Shard& to, const std::vector<int>& buckets, int target) {
    TD_ASSIGN_OR_RETURN(const BucketMigration parcel, Freeze(from, buckets, target));
    TD_RETURN_IF_ERROR(to.migrations().Offer("job", parcel));
    TD_ASSIGN_OR_RETURN(const BucketMap map, from.migrations().Release("job", parcel.moves));
    return Tell(to, map);
  }

  UpdatePolicy mode_ = UpdatePolicy::kASync;
  bool each_step_once_ = false;
  FakeClock clock_;
  Metrics metrics_;
  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
};

// A channel that delivers the calls of a BucketMigrator to the shards synchronously.
class ShardCarrier final : public ps::PsChannel {
 public:
  ShardCarrier(std::vector<Shard*> shards, const Clock& clock, std::function<void(int)> before)
      : shards_(std::move(shards)), clock_(clock), before_(std::move(before)) {}
  Time Now() const override { return clock_.Now(); }
  std::unique_ptr<ps::PsEvent> MakeEvent() override { return std::make_unique<Event>(); }
  void Call(int server, rpc::PserverCall call, codec::EncodedMessage message, Time /*deadline*/,
            Take take) override {
    before_(++calls_);
    Shard& shard = *shards_[static_cast<size_t>(server)];
    const std::string bytes = Flat(message);
    switch (call) {
      case rpc::PserverCall::kRefuseBuckets:
        return Answer<RefuseBucketsRequest, RefuseBucketsReply>(
            bytes, take, [&](const auto& request, auto*) {
              return shard.migrations().Refuse(request.job(), request.refuse());
            });
      case rpc::PserverCall::kFreezeBuckets:
        return Answer<FreezeBucketsRequest, FreezeBucketsReply>(
            bytes, take,
            [&](const auto& r, auto* reply) { return FreezeBuckets(r, shard, reply); });
      case rpc::PserverCall::kOfferBuckets:
        return Answer<OfferBucketsRequest, OfferBucketsReply>(
            bytes, take, [&](const auto& r, auto*) { return OfferBuckets(r, shard); });
      case rpc::PserverCall::kReleaseBuckets:
        return Answer<ReleaseBucketsRequest, ReleaseBucketsReply>(
            bytes, take,
            [&](const auto& r, auto* reply) { return ReleaseBuckets(r, shard, reply); });
      default:
        return Answer<ExchangeMapRequest, ExchangeMapReply>(
            bytes, take, [&](const auto& r, auto* reply) { return ExchangeMap(r, shard, reply); });
    }
  }
  void After(Duration /*pause*/, std::function<void()> then) override { then(); }
  Status AddServer(int /*server*/, const std::string& /*address*/) override { return OkStatus(); }
  void Abandon(int /*server*/) override {}
  void Close() override {}
  int calls() const { return calls_; }

 private:
  template <typename Request, typename Reply, typename Handle>
  static void Answer(const std::string& bytes, const Take& take, const Handle& handle) {
    Request request;
    Reply reply;
    ASSERT_TRUE(request.ParseFromString(bytes));
    const Status status = handle(request, &reply);
    const std::string answer = reply.SerializeAsString();
    const std::span<const std::byte> piece = std::as_bytes(std::span(answer));
    take(status, codec::Fragments(&piece, 1));
  }
  struct Event final : ps::PsEvent {
    void Set() override { set = true; }
    bool WaitUntil(Time /*deadline*/) override { return set; }
    bool set = false;
  };
  const std::vector<Shard*> shards_;
  const Clock& clock_;
  const std::function<void(int)> before_;  // called before each call, with the number of the call
  int calls_ = 0;
};

}  // namespace tandem::pserver
