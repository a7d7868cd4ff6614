// Dense slices that move between two shards. Each slice is a bucket. Tests values, optimizer slots,
// push records, steps, leases, snapshots, and rejected calls.
#include "common/codec/tensor_codec.h"
#include "pserver/service/tensor_calls.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/migration_calls.h"
#include "tests/unit/pserver/moves_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

constexpr int kFirst = kRowBuckets, kSecond = kRowBuckets + 1, kThird = kRowBuckets + 2;

SliceSpec SliceOf(int bucket) {
  const std::string name = bucket == kThird ? "b" : "w";
  return {name, name == "b" ? Shape{4} : Shape{2, 4}, bucket == kSecond ? 4 : 0, 4, bucket};
}

class SliceMovesTest : public MovesTest {
 protected:
  // Starts a shard with the slices of these buckets. The parameters of each slice are 1, 2, 3 and
  // 4.
  std::unique_ptr<Shard> StartWith(int index, const std::vector<int>& buckets) {
    auto shard = Make(index);
    EXPECT_TRUE(Begin(*shard, buckets).ok());
    std::vector<SliceValues> params;
    for (const int b : buckets) {
      const SliceSpec s = SliceOf(b);
      params.push_back({s.variable, s.offset, s.numel, FloatBuffer({1, 2, 3, 4})});
    }
    const auto whole = shard->InitParams({"job", 0, kIncarnation}, 0, params, {});
    EXPECT_TRUE(whole.ok() && *whole) << whole.status();
    return shard;
  }
  Status Begin(Shard& shard, const std::vector<int>& buckets) {
    ShardConfig config{.job = "job", .trainers = 2, .mode = mode_};
    config.optimizer = {"adam", {}};
    for (const int b : buckets) config.slices.push_back(SliceOf(b));
    for (int t : {0, 1}) {
      TD_RETURN_IF_ERROR(shard.Configure({"job", t, kIncarnation}, config).status());
    }
    return OkStatus();
  }
  // Pushes gradients that depend on step, trainer and element.
  StatusOr<PushOutcome> PushSlices(Shard& shard, uint64_t step, int trainer,
                                   const std::vector<int>& buckets, uint64_t generation = 0,
                                   uint64_t sequence = 0) {
    PushHead head{
        {{"job", trainer, kIncarnation}, sequence == 0 ? ++sequence_ : sequence, step, 0.5f}, {}};
    head.generation = generation;
    for (const int b : buckets) {
      head.slices.push_back({SliceOf(b).variable, SliceOf(b).offset, {DType::kF32, Shape{4}}});
    }
    return PushAs(shard, head);
  }
  static StatusOr<PushOutcome> PushAs(Shard& shard, const PushHead& head) {
    TD_ASSIGN_OR_RETURN(PushTicket ticket, shard.AdmitPush(head));
    for (size_t i = 0; i < ticket.buffers.size(); ++i) {
      auto* const values = reinterpret_cast<float*>(ticket.buffers[i].mutable_data());
      for (size_t k = 0; k < 4; ++k) {
        values[k] = static_cast<float>((head.step * 5 + k * 3) % 7) - 2.7f +
                    static_cast<float>(head.caller.trainer);
      }
    }
    return shard.Push(head, std::move(ticket));
  }
  void Step(Shard& shard, uint64_t step, const std::vector<int>& buckets, uint64_t generation = 0) {
    for (const int trainer : {0, 1}) {
      const auto pushed = PushSlices(shard, step, trainer, buckets, generation);
      ASSERT_TRUE(pushed.ok()) << pushed.status();
    }
  }
  StatusOr<std::vector<float>> PullSlice(Shard& shard, int bucket, uint64_t min_version = 0,
                                         std::optional<uint64_t> at = {}) {
    StatusOr<std::vector<float>> values = Internal("not answered");
    const SliceSpec s = SliceOf(bucket);
    PullQuery query{.caller = {"job", 0, kIncarnation},
                    .min_version = min_version,
                    .ranges = {{s.variable, s.offset, s.numel}},
                    .at_version = at};
    shard.Pull(query, clock_.Now() + seconds(60), [&values](const StatusOr<PullResult>& result) {
      if (!result.ok()) return void(values = result.status());
      const auto all = Floats(result->slices[0].values, 4);
      values = std::vector<float>(all.begin(), all.end());
    });
    return values;
  }
  // Returns the parameters and slots of all slices, by bucket.
  static std::map<int, std::vector<float>> StateOf(Shard& shard) {
    std::map<int, std::vector<float>> all;
    const auto image = shard.checkpoints().Take();
    EXPECT_TRUE(image.ok()) << image.status();
    for (size_t i = 0; i < image->slices.size(); ++i) {
      const SliceSpec& spec = image->config.slices[i];
      std::vector<float>& state = all[spec.bucket];
      const auto add = [&state](const Buffer& values, int64_t n) {
        const auto floats = Floats(values, n);
        state.insert(state.end(), floats.begin(), floats.end());
      };
      add(image->slices[i].param, spec.numel);
      for (const SliceSnapshot::Slot& slot : image->slices[i].slots) add(slot.values, slot.numel);
    }
    return all;
  }

  uint64_t sequence_ = 0;
};

TEST_F(SliceMovesTest, ParametersAndSlotsMoveAndGoOnInTheSameBits) {
  const auto a = StartWith(0, {kFirst, kThird}), b = StartWith(1, {kSecond});
  const auto alone = StartWith(0, {kFirst, kThird});
  for (const uint64_t step : {0, 1, 2}) {
    Step(*a, step, {kFirst, kThird});
    Step(*alone, step, {kFirst, kThird});
  }
  ASSERT_TRUE(Move(*a, *b, {kFirst}, 1).ok());
  EXPECT_EQ(*PullSlice(*b, kFirst), *PullSlice(*alone, kFirst));
  for (const uint64_t step : {3, 4}) {
    Step(*a, step, {kThird}, 1);
    Step(*b, step, {kFirst});
    Step(*alone, step, {kFirst, kThird});
  }
  const auto expected = StateOf(*alone);
  EXPECT_EQ(StateOf(*b)[kFirst], expected.at(kFirst));
  EXPECT_EQ(StateOf(*a), (std::map<int, std::vector<float>>{{kThird, expected.at(kThird)}}));
  // The server must report that the slice moved away, not that the slice is unknown.
  EXPECT_EQ(PullSlice(*a, kFirst).status().code(), StatusCode::kOutOfRange);
  const auto late = PushSlices(*a, 5, 0, {kFirst}, 1);
  EXPECT_EQ(late.status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(late.status().message()),
              HasSubstr("the slice of w that starts at element 0 is not on this"));
  const auto answer = a->migrations().Exchange({"job", 0, 0}, /*observer=*/true, {});
  EXPECT_EQ(answer->buckets, std::vector<int>{kThird});
  // A slice has its parameters, the two moments of adam and two powers.
  EXPECT_EQ(answer->slice_bytes, std::vector<uint64_t>{(3 * 4 + 2) * sizeof(float)});
  EXPECT_EQ(answer->slices, 0u);
}

TEST_F(SliceMovesTest, OfTwoServersNeverBothServeIt) {
  const auto a = StartWith(0, {kFirst}), b = StartWith(1, {kSecond});
  const auto parcel = Freeze(*a, {kFirst}, 1);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  EXPECT_EQ(PushSlices(*a, 0, 0, {kFirst}, 0, 90).status().code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(b->migrations().Offer("job", *parcel).ok());
  ASSERT_TRUE(b->migrations().Offer("job", *parcel).ok());
  EXPECT_EQ(PushSlices(*b, 0, 0, {kFirst}).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(PullSlice(*b, kFirst).status().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(PushSlices(*b, 0, 0, {kSecond}).ok());  // pushes to other slices are accepted
  // A server that was restarted during the move must not serve the slice either.
  const auto again = Make(1);
  ASSERT_TRUE(again->checkpoints().Restore(*b->checkpoints().Take()).ok());
  EXPECT_EQ(PullSlice(*again, kFirst).status().code(), StatusCode::kOutOfRange);
  clock_.Advance(seconds(3));  // the lease of the move ends
  EXPECT_TRUE(PushSlices(*a, 0, 0, {kFirst}, 0, 90).ok());
  EXPECT_EQ(a->migrations().Release("job", parcel->moves).status().code(), StatusCode::kAborted);
  const auto values = *PullSlice(*a, kFirst);
  ASSERT_TRUE(Move(*a, *b, {kFirst}, 1).ok());
  EXPECT_EQ(*PullSlice(*b, kFirst), values);
  EXPECT_EQ(StateOf(*a).size(), 0u);
  EXPECT_EQ(StateOf(*b).size(), 2u);
}

TEST_F(SliceMovesTest, AParcelMustHaveWhatItSaysAndFit) {
  const auto a = StartWith(0, {kFirst}), b = StartWith(1, {kSecond});
  const auto parcel = Freeze(*a, {kFirst}, 1);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  const auto refused = [&](const std::string& why, const auto& change) {
    BucketMigration other = *parcel;
    change(other);
    const Status status = b->migrations().Offer("job", other);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  refused("has no slice of this partition", [](BucketMigration& p) { p.slices.clear(); });
  refused("in partition 1026, but does not move",
          [](BucketMigration& p) { p.slices[0].spec.bucket = kThird; });
  refused("overlaps another", [](BucketMigration& p) { p.slices[0].spec.offset = 4; });
  EXPECT_EQ(StateOf(*b).size(), 1u);
  EXPECT_TRUE(b->migrations().Offer("job", *parcel).ok());
}

TEST_F(SliceMovesTest, APushThatWasRefusedOrTakenBeforeIsKnownWhereTheSliceIs) {
  const auto a = StartWith(0, {kFirst}), b = StartWith(1, {kSecond}), c = Make(2);
  ASSERT_TRUE(PushSlices(*a, 0, 0, {kFirst}, 0, 4).ok());
  ASSERT_TRUE(Move(*a, *b, {kFirst}, 1).ok());
  ASSERT_TRUE(Move(*b, *c, {kFirst}, 2).ok());  // server c is new: it has had no slices before
  EXPECT_EQ(PushSlices(*a, 0, 0, {kFirst}, 0, 5).status().code(), StatusCode::kOutOfRange);
  const auto values = *PullSlice(*c, kFirst);
  PushHead head{{{"job", 0, kIncarnation}, 1, 0, 0.5f}, {{"w", 0, {DType::kF32, Shape{4}}}}};
  head.origin_server = 1;
  head.origin_sequence = 4;
  auto asked = PushAs(*c, head);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_TRUE(asked->duplicate);
  EXPECT_EQ(*PullSlice(*c, kFirst), values);
  head.origin_sequence = 5;  // the server of origin never accepted this push
  asked = PushAs(*c, head);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_FALSE(asked->duplicate);
  EXPECT_NE(*PullSlice(*c, kFirst), values);
}

TEST_F(SliceMovesTest, ServersComeBackWithWhatTheyHaveAndTrainersConfigureAsEver) {
  const auto a = StartWith(0, {kFirst, kThird}), b = StartWith(1, {kSecond});
  Step(*a, 0, {kFirst, kThird});
  ASSERT_TRUE(Move(*a, *b, {kFirst}, 1).ok());
  const auto a2 = Make(0), b2 = Make(1);
  ASSERT_TRUE(a2->checkpoints().Restore(*a->checkpoints().Take()).ok());
  ASSERT_TRUE(b2->checkpoints().Restore(*b->checkpoints().Take()).ok());
  EXPECT_EQ(StateOf(*b2), StateOf(*b));
  for (Shard* const shard : {a.get(), a2.get()}) {
    EXPECT_TRUE(Begin(*shard, {kFirst, kThird}).ok());
    EXPECT_FALSE(Begin(*shard, {kThird}).ok());
    EXPECT_EQ(PullSlice(*shard, kFirst).status().code(), StatusCode::kOutOfRange);
  }
  for (Shard* const shard : {b.get(), b2.get()}) {
    EXPECT_TRUE(Begin(*shard, {kSecond}).ok());
    EXPECT_FALSE(Begin(*shard, {kFirst, kSecond}).ok());
    EXPECT_EQ(*PullSlice(*shard, kFirst), *PullSlice(*b, kFirst));
  }
  ASSERT_TRUE(Move(*b2, *a2, {kFirst}, 0).ok());
  EXPECT_TRUE(Begin(*a2, {kFirst, kThird}).ok());
  EXPECT_EQ(StateOf(*a2).size(), 2u);
}

// A snapshot has the state of the time at which it began, although a slice moves away before the
// copy.
TEST_F(SliceMovesTest, AnImageOfBeforeTheMoveIsNotChangedByIt) {
  std::vector<SnapshotFn> copies;
  const auto a = std::make_unique<Shard>(
      Shard::Options{
          .index = 0,
          .checkpoint_every_steps = 1,
          .on_checkpoint = [&](uint64_t, const SnapshotFn& copy) { copies.push_back(copy); }},
      clock_, backend_, device_, metrics_);
  const auto b = StartWith(1, {kSecond}), alone = StartWith(0, {kFirst, kThird});
  ASSERT_TRUE(Begin(*a, {kFirst, kThird}).ok());
  ASSERT_TRUE(a->InitParams(
                   {"job", 0, kIncarnation}, 0,
                   {{"w", 0, 4, FloatBuffer({1, 2, 3, 4})}, {"b", 0, 4, FloatBuffer({1, 2, 3, 4})}},
                   {})
                  .ok());
  ASSERT_TRUE(PushSlices(*a, 0, 0, {kFirst, kThird}).ok());
  ASSERT_TRUE(PushSlices(*alone, 0, 0, {kFirst, kThird}).ok());
  ASSERT_EQ(copies.size(), 1u);
  ASSERT_TRUE(Move(*a, *b, {kFirst}, 1).ok());
  ASSERT_TRUE(Move(*b, *a, {kSecond}, 0).ok());
  ASSERT_TRUE(PushSlices(*a, 1, 0, {kThird}, 1).ok());
  const auto image = copies[0]();
  ASSERT_TRUE(image.ok()) << image.status();
  copies.clear();  // a copy must not outlive its shard
  const auto later = Make(0);
  ASSERT_TRUE(later->checkpoints().Restore(*image).ok());
  EXPECT_EQ(StateOf(*later), StateOf(*alone));
}

TEST_F(SliceMovesTest, WhoWaitsForASliceThatGoesIsTold) {
  std::map<int, Status> told;
  const auto a = StartWith(0, {kFirst, kThird}), b = StartWith(1, {kSecond});
  for (const int bucket : {kFirst, kThird}) {
    const SliceSpec s = SliceOf(bucket);
    a->Pull({.caller = {"job", 0, kIncarnation},
             .min_version = 7,
             .ranges = {{s.variable, s.offset, s.numel}},
             .at_version = {}},
            clock_.Now() + seconds(60),
            [&told, bucket](const StatusOr<PullResult>& r) { told[bucket] = r.status(); });
  }
  EXPECT_TRUE(told.empty());
  ASSERT_TRUE(Move(*a, *b, {kFirst}, 1).ok());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[kFirst].code(), StatusCode::kOutOfRange);
}

// A pull that waits for a slice gets an error when the slice moves away. The reply must say that
// the push in the same message was accepted, because the client must not send this push to another
// server.
TEST_F(SliceMovesTest, APushWhosePullWaitsForASliceThatGoesWasTaken) {
  struct NoDeadlines final : Deadlines {
    using Deadlines::Deadlines;
    void Poke(Time /*deadline*/) override {}
  } deadlines(clock_);
  const auto a = StartWith(0, {kFirst, kThird}), b = StartWith(1, {kSecond});
  TensorCalls calls(1, *a, deadlines);
  PullRequest pull;
  pull.set_min_version(7);
  pull.set_timeout_ms(1000);
  auto* const range = pull.add_range();
  range->set_variable("w");
  range->set_numel(4);
  const std::vector<float> gradient(4, 1);
  codec::CodedPush push;
  push.header = {.caller = {"job", 0, kIncarnation}, .sequence = 1, .learning_rate = 0.5f};
  push.slices.resize(1);
  push.slices[0].variable = "w";
  push.slices[0].desc = {DType::kF32, Shape{4}};
  push.slices[0].data = gradient.data();
  push.pull = pull.SerializeAsString();
  const std::string bytes = Flat(codec::EncodePush(push));
  const std::span<const std::byte> piece = std::as_bytes(std::span(bytes));
  int answers = 0;
  calls.Push(codec::Fragments(&piece, 1),
             [&answers](const Status& status, const codec::EncodedMessage& answer) {
               ++answers;
               ASSERT_TRUE(status.ok()) << status;
               PushReply reply;
               ASSERT_TRUE(reply.ParseFromString(Flat(answer)));
               EXPECT_FALSE(reply.has_pulled());
               EXPECT_EQ(reply.version(), 1u);
             });
  EXPECT_EQ(answers, 0);
  ASSERT_TRUE(Move(*a, *b, {kFirst}, 1).ok());
  EXPECT_EQ(answers, 1);
}

class StepSliceMovesTest : public SliceMovesTest {
 protected:
  StepSliceMovesTest() { mode_ = UpdatePolicy::kSync; }
  static FreezeRequest Before(uint64_t step, int target, const std::vector<int>& buckets) {
    return {buckets, target, "host:1", seconds(2), step};
  }
  // Runs steps 0, 1 and 2 on both servers. Offers the third slice to server b before step 3. After
  // the call, both servers are at step 3.
  StatusOr<BucketMigration> OfferBeforeStep3(Shard& a, Shard& b) {
    for (const uint64_t step : {0, 1}) {
      Step(a, step, {kFirst, kThird});
      Step(b, step, {kSecond});
    }
    const FreezeRequest order = Before(3, 1, {kThird});
    for (Shard* const shard : {&a, &b}) {
      EXPECT_TRUE(shard->migrations().Freeze("job", order)->moves.empty());
    }
    Step(a, 2, {kFirst, kThird});
    Step(b, 2, {kSecond});
    EXPECT_EQ(b.migrations().Freeze("job", order)->version, 3u);
    TD_ASSIGN_OR_RETURN(BucketMigration parcel, a.migrations().Freeze("job", order));
    TD_RETURN_IF_ERROR(b.migrations().Offer("job", parcel));
    return parcel;
  }
};

TEST_F(StepSliceMovesTest, SlicesMoveBeforeAStepAndGoOnInTheSameBits) {
  const auto a = StartWith(0, {kFirst, kThird}), b = StartWith(1, {kSecond});
  const auto alone = StartWith(0, {kFirst, kSecond, kThird});
  for (const uint64_t step : {0, 1, 2}) Step(*alone, step, {kFirst, kSecond, kThird});
  const auto parcel = OfferBeforeStep3(*a, *b);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  // Before the release, neither server accepts a push for step 3, whichever slices it contains.
  EXPECT_EQ(PushSlices(*a, 3, 0, {kFirst}).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(PushSlices(*b, 3, 0, {kSecond}).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(*PullSlice(*a, kThird, 3), *PullSlice(*alone, kThird));
  const auto map = a->migrations().Release("job", parcel->moves);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_TRUE(Tell(*b, *map).ok());
  // The replacement of a trainer may request the parameters of the previous step.
  for (const uint64_t version : {2, 3}) {
    EXPECT_EQ(*PullSlice(*b, kThird, version, version), *PullSlice(*alone, kThird, 0, version));
  }
  // Both servers permanently reject pushes that the client partitioned before the move.
  EXPECT_EQ(PushSlices(*a, 3, 0, {kFirst}).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(PushSlices(*b, 3, 0, {kSecond}).status().code(), StatusCode::kOutOfRange);
  for (const uint64_t step : {3, 4}) {
    Step(*a, step, {kFirst}, 1);
    Step(*b, step, {kSecond, kThird}, 1);
    Step(*alone, step, {kFirst, kSecond, kThird});
  }
  std::map<int, std::vector<float>> both = StateOf(*a);
  both.merge(StateOf(*b));
  EXPECT_EQ(both, StateOf(*alone));
}

TEST_F(StepSliceMovesTest, AMoveThatComesToNothingLeavesBothAsTheyWere) {
  const auto a = StartWith(0, {kFirst, kThird}), b = StartWith(1, {kSecond});
  const auto parcel = OfferBeforeStep3(*a, *b);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  clock_.Advance(seconds(3));
  Step(*a, 3, {kFirst, kThird});
  EXPECT_EQ(PushSlices(*b, 3, 0, {kSecond}).status().code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(Tell(*b, a->migrations().Exchange({"job", 0, 0}, /*observer=*/true, {})->map).ok());
  EXPECT_EQ(PullSlice(*b, kThird).status().code(), StatusCode::kOutOfRange);
  Step(*b, 3, {kSecond});
  EXPECT_EQ(b->Info().version, 4u);
  EXPECT_EQ(StateOf(*b).size(), 1u);
}

TEST_F(StepSliceMovesTest, AServerThatIsEmptyMakesNoStepsAndComesBackAtThatOfTheOthers) {
  const auto a = StartWith(0, {kFirst}), b = StartWith(1, {kSecond});
  const auto alone = StartWith(0, {kFirst, kSecond});
  const auto move = [&](Shard& from, Shard& to, const FreezeRequest& order) -> Status {
    TD_ASSIGN_OR_RETURN(const BucketMigration parcel, from.migrations().Freeze("job", order));
    TD_RETURN_IF_ERROR(to.migrations().Offer("job", parcel));
    TD_ASSIGN_OR_RETURN(const BucketMap map, from.migrations().Release("job", parcel.moves));
    return Tell(to, map);
  };
  const FreezeRequest away = Before(1, 1, {kFirst});
  for (Shard* const shard : {a.get(), b.get()})
    ASSERT_TRUE(shard->migrations().Freeze("job", away).ok());
  Step(*a, 0, {kFirst});
  Step(*b, 0, {kSecond});
  ASSERT_TRUE(move(*a, *b, away).ok());
  for (const uint64_t step : {1, 2, 3}) Step(*b, step, {kFirst, kSecond}, 1);
  // Server a is still at step 1. The move back freezes only server b.
  const FreezeRequest home = Before(5, 0, {kFirst});
  ASSERT_TRUE(b->migrations().Freeze("job", home).ok());
  Step(*b, 4, {kFirst, kSecond}, 1);
  ASSERT_TRUE(move(*b, *a, home).ok());
  EXPECT_EQ(a->Info().version, 5u);
  Step(*a, 5, {kFirst}, 2);
  Step(*b, 5, {kSecond}, 2);
  for (uint64_t step = 0; step < 6; ++step) Step(*alone, step, {kFirst, kSecond});
  std::map<int, std::vector<float>> both = StateOf(*a);
  both.merge(StateOf(*b));
  EXPECT_EQ(both, StateOf(*alone));
}

}  // namespace
}  // namespace tandem::pserver
