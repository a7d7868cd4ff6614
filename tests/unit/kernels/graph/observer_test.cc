// Tests the observers of a running plan: the profile and the check for NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "common/tensor/finite.h"
#include "kernels/exec/nan_check.h"
#include "kernels/exec/profile.h"
#include "kernels/graph/builder.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/optimizer.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The communication of a rank in a world of two ranks, in which the other rank sends the same data.
// Each operation takes 2 ms.
class SlowEcho final : public exec::CommHandler {
 public:
  StatusOr<int> Register(const exec::CommNode& node) override {
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }
  void Start(int index, int64_t, exec::CommDone* done) override {
    for (const exec::CommTensor& t : nodes_[static_cast<size_t>(index)].out) {
      auto* data = static_cast<float*>(t.data);
      for (int64_t i = 0; i < t.desc.shape.numel(); ++i) data[i] *= 2;
    }
    const Time end = SteadyNow() + std::chrono::milliseconds(2);
    while (SteadyNow() < end) {
    }
    done->Complete(OkStatus());
  }
  Duration timeout() const override { return std::chrono::seconds(5); }

 private:
  std::vector<exec::CommNode> nodes_;
};

// An operation that ends kMoment after a thread begins to wait for it.
class EndsWhenWaitedFor final : public exec::CommHandler {
 public:
  static constexpr Duration kMoment = std::chrono::milliseconds(20);
  ~EndsWhenWaitedFor() override {
    for (std::thread& thread : threads_) thread.join();
  }
  StatusOr<int> Register(const exec::CommNode&) override { return 0; }
  void Start(int, int64_t, exec::CommDone* done) override { done_ = done; }
  Duration timeout() const override {
    threads_.emplace_back([done = done_] {
      std::this_thread::sleep_for(kMoment);
      done->Complete(OkStatus());
    });
    return std::chrono::seconds(60);
  }

 private:
  exec::CommDone* done_ = nullptr;
  mutable std::vector<std::thread> threads_;
};

class ObserverTest : public ::testing::Test {
 protected:
  // Makes a plan for x [8, 6] -> fc(4), relu -> fc(2) -> loss. The gradients are reduced, and the
  // optimizer is sgd.
  std::unique_ptr<exec::Plan> Trained(int threads = 1) { return TrainedWith(comm_, threads); }
  std::unique_ptr<exec::Plan> TrainedWith(exec::CommHandler& comm, int threads) {
    graph::ProgramBuilder b("small", 8);
    const auto x = b.Data("x", DType::kF32, {6});
    const auto label = b.Data("label", DType::kI64, {1});
    b.SoftmaxLoss(b.Fc(b.Fc(x, 4, graph::Act::kRelu), 2), label);
    auto program = b.Finish();
    CHECK(program.ok()) << program.status();
    const auto grads = *graph::AppendBackward(*program, 0.5f);
    CHECK(graph::InsertAllReduce(*program, graph::GroupGradients(*program, grads, {})).ok());
    CHECK(graph::AppendOptimizer(*program, {}, grads).ok());
    CHECK(exec::Initialize(*program, 7, scope_).ok());
    exec::PlanOptions options;
    options.num_threads = threads;
    auto plan = exec::Plan::Make(*program, exec::Backend::Cpu(), scope_, &comm, options);
    CHECK(plan.ok()) << plan.status();
    for (float& v : (*plan)->Get("x")->span<float>()) v = 1;
    for (int64_t& v : (*plan)->Get("label")->span<int64_t>()) v = 1;
    return *std::move(plan);
  }
  static const exec::ProfileRow* Find(const std::vector<exec::ProfileRow>& rows,
                                      const std::string& name) {
    for (const exec::ProfileRow& row : rows) {
      if (row.name == name) return &row;
    }
    return nullptr;
  }

  CpuDevice device_;
  exec::Scope scope_{device_};
  SlowEcho comm_;
};

TEST_F(ObserverTest, ProfileCountsAndTimesEveryOperator) {
  const auto plan = Trained();
  exec::Executor executor(*plan);
  exec::Profiler profiler(*plan);
  ASSERT_TRUE(executor.Run(2).ok());  // two steps without an observer
  executor.SetObserver(&profiler);
  const Time begin = SteadyNow();
  ASSERT_TRUE(executor.Run(3).ok());
  const double wall = Seconds(SteadyNow() - begin);
  executor.SetObserver(nullptr);
  ASSERT_TRUE(executor.Run().ok());
  profiler.Add("feed", 4, begin, begin + std::chrono::milliseconds(5));

  const auto rows = exec::SumUp(profiler, exec::ProfileOrder::kTotal, /*detail=*/false);
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_GE(rows[i - 1].total, rows[i].total);
  double busy = 0;
  for (const exec::ProfileRow& row : rows) {
    if (row.lane == exec::TraceTrack::kCompute) busy += row.total;
    EXPECT_LE(row.min, row.max) << row.name;
    EXPECT_GE(row.total * 1.0001, row.min * static_cast<double>(row.calls)) << row.name;
  }
  EXPECT_LE(busy, wall);
  EXPECT_GT(busy, 0.5 * wall);

  const exec::ProfileRow* fc = Find(rows, "fc");
  ASSERT_NE(fc, nullptr);
  EXPECT_EQ(fc->calls, 6);  // two fc calls in each of three steps
  EXPECT_EQ(fc->flops, 3 * 2.0 * 8 * (6 * 4 + 4 * 2));
  // The bytes of the input, weights, bias and output of both fc operators, in three steps.
  EXPECT_EQ(fc->bytes, 3 * 4.0 * (48 + 24 + 4 + 32 + 32 + 8 + 2 + 16));
  // fc_grad computes no gradient of x.
  EXPECT_EQ(Find(rows, "fc_grad")->flops, 3 * 2.0 * 8 * (6 * 4 + 2 * 4 * 2));
  EXPECT_EQ(Find(rows, "relu")->flops, 0);
  const exec::ProfileRow* way = Find(rows, "c_allreduce_sum (in transit)");
  ASSERT_NE(way, nullptr);
  EXPECT_EQ(way->calls, 3);
  EXPECT_GE(way->min, 0.002);
  EXPECT_EQ(way->lane, exec::TraceTrack::kComm);
  EXPECT_EQ(Find(rows, "wait for c_allreduce_sum")->calls, 3);
  EXPECT_NEAR(Find(rows, "feed")->total, 0.005, 1e-9);
}

TEST_F(ObserverTest, WhatOfCommunicationIsHidden) {
  const Time t = SteadyNow();
  const auto span = [t](const char* what, exec::TraceTrack lane, int64_t run, int begin_ms,
                        int end_ms) {
    return exec::Span{0,
                      what,
                      lane,
                      run,
                      t + std::chrono::milliseconds(begin_ms),
                      t + std::chrono::milliseconds(end_ms)};
  };
  const std::vector<exec::Span> spans = {span("", exec::TraceTrack::kCompute, 0, 0, 10),
                                         span("", exec::TraceTrack::kComm, 0, 2, 8),
                                         span("", exec::TraceTrack::kComm, 0, 4, 12),
                                         span("wait", exec::TraceTrack::kCompute, 0, 10, 12),
                                         span("", exec::TraceTrack::kCompute, 1, 20, 30),
                                         span("", exec::TraceTrack::kComm, 1, 30, 40),
                                         span("wait", exec::TraceTrack::kCompute, 1, 30, 40),
                                         span("feed", exec::TraceTrack::kFeed, 1, 18, 20)};
  const exec::CommOverlap overlap = exec::OverlapOf(spans);
  EXPECT_EQ(overlap.steps, 2);
  EXPECT_NEAR(overlap.on_way, 0.020, 1e-9);  // in transit from 2 to 12 ms and from 30 to 40 ms
  EXPECT_NEAR(overlap.exposed, 0.012, 1e-9);
  EXPECT_EQ(ToString(exec::BusyOf(spans)), "");
  // Concurrent work of two device streams counts once. Work before the first step belongs to no
  // step.
  std::vector<exec::Span> device = spans;
  device.push_back(span("copy", exec::TraceTrack::kDevice, 0, -10, -5));
  device.push_back(span("kernel", exec::TraceTrack::kDevice, 0, 5, 15));
  device.push_back(span("kernel", exec::TraceTrack::kDevice, 1, 10, 20));
  const exec::DeviceBusy busy = exec::BusyOf(device);
  EXPECT_EQ(busy.steps, 2);
  EXPECT_NEAR(busy.busy, 0.020, 1e-9);
  EXPECT_NEAR(busy.all, 0.050, 1e-9);
  EXPECT_EQ(ToString(busy), "device: busy 10.000 ms of 25.000 ms per step, 40 %\n");
  EXPECT_NEAR(exec::OverlapOf(device).on_way, 0.020, 1e-9);
  EXPECT_EQ(ToString(overlap),
            "communication: 10.000 ms per step, of which steps wait 6.000 ms; 40 % overlaps with "
            "other work\n");
  EXPECT_EQ(ToString(exec::OverlapOf(std::span(spans).first(1))), "");
}

TEST_F(ObserverTest, CommunicationIsTimedWhenNobodyLooksOnToo) {
  const double moment = Seconds(EndsWhenWaitedFor::kMoment);
  EndsWhenWaitedFor late;
  for (const int threads : {1, 2}) {
    const auto plan = TrainedWith(late, threads);
    exec::Executor executor(*plan);
    ASSERT_TRUE(executor.Run(3).ok());
    const exec::CommTimes times = executor.comm_times();
    EXPECT_GE(times.on_way, 3 * moment);
    EXPECT_GE(times.exposed, 3 * moment / threads) << "nobody computes meanwhile";
    EXPECT_LE(times.exposed, times.on_way + 1) << threads;
  }
  // The starting thread does not wait for an operation at once, so the exposed time is shorter than
  // the time in transit.
  const auto plan = Trained();
  exec::Executor executor(*plan);
  ASSERT_TRUE(executor.Run(3).ok());
  EXPECT_GE(executor.comm_times().on_way, 3 * 0.002);
  EXPECT_LT(executor.comm_times().exposed, executor.comm_times().on_way);
}

TEST_F(ObserverTest, TableAndOrders) {
  const auto plan = Trained();
  exec::Executor executor(*plan);
  exec::Profiler profiler(*plan);
  executor.SetObserver(&profiler);
  ASSERT_TRUE(executor.Run(3).ok());
  const auto by_calls = exec::SumUp(profiler, exec::ProfileOrder::kCalls, false);
  for (size_t i = 1; i < by_calls.size(); ++i) EXPECT_GE(by_calls[i - 1].calls, by_calls[i].calls);
  const auto detail = exec::SumUp(profiler, exec::ProfileOrder::kTotal, true);
  EXPECT_NE(Find(detail, "#0 fc fc_0.out"), nullptr) << exec::ProfileTable(detail, {1e9, 1e9});
  for (const exec::ProfileRow& row : detail) EXPECT_EQ(row.calls, 3) << row.name;
  const std::string table = exec::ProfileTable(by_calls, {1e9, 2e9});
  EXPECT_THAT(table, HasSubstr("Event"));
  EXPECT_THAT(table, HasSubstr("Ratio."));
  EXPECT_THAT(table, HasSubstr("GFLOP/s"));
  EXPECT_THAT(table, HasSubstr("GB/s"));
  EXPECT_THAT(table, HasSubstr("peak of this machine: 1.0 GFLOP/s, 2.0 GB/s copied"));
}

TEST_F(ObserverTest, BothRatesOfARowAsSharesOfThePeak) {
  exec::ProfileRow fc{.name = "fc", .calls = 1, .total = 0.5, .flops = 3e9, .bytes = 1e9};
  exec::ProfileRow relu{.name = "relu", .calls = 1, .total = 0.25, .bytes = 1e9};
  exec::ProfileRow way{
      .name = "way", .lane = exec::TraceTrack::kComm, .calls = 1, .total = 0.25, .bytes = 1e9};
  const std::string table = exec::ProfileTable({fc, relu, way}, {8e9, 16e9});
  EXPECT_THAT(table, HasSubstr(" 0.6667      6.0   75.0%      2.0   12.5%\n"));
  EXPECT_THAT(table, HasSubstr(" 0.3333                       4.0   25.0%\n"));
  EXPECT_THAT(table, HasSubstr(" 0.0000\n")) << "what is on its way computes nothing";
  EXPECT_THAT(table, Not(HasSubstr("unreliable")));
}

TEST_F(ObserverTest, NoShareAboveThePeak) {
  exec::ProfileRow fc{.name = "fc", .calls = 1, .total = 0.5, .flops = 6e9, .bytes = 1e9};
  exec::ProfileRow relu{.name = "relu", .calls = 1, .total = 0.25, .bytes = 9e9};
  const std::string table = exec::ProfileTable({fc}, {8e9, 16e9, 3});
  EXPECT_THAT(table, HasSubstr("     12.0   >100%      2.0   12.5%\n"));
  EXPECT_THAT(table, HasSubstr("the measured peak is too low (3 other threads ran)"));
  EXPECT_THAT(table, Not(HasSubstr("caches")));
  const std::string cached = exec::ProfileTable({relu}, {8e9, 16e9, 3});
  EXPECT_THAT(cached, HasSubstr(" 36.0   >100%\n"));
  EXPECT_THAT(cached, HasSubstr("GB/s above the peak: the data were in caches"));
  EXPECT_THAT(cached, Not(HasSubstr("other threads ran")));
}

// A probe of the peak is shorter than one time slice, so that even on a busy machine some probes
// run without interruption.
TEST(MachinePeak, OtherProcessesDoNotLowerIt) {
  const ops::MachinePeak before = ops::MeasurePeak(1);
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    busy.emplace_back([&stop] {
      while (!stop) {
      }
    });
  }
  const ops::MachinePeak peak = ops::MeasurePeak(1);
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_GT(peak.flops, 0.6 * before.flops) << "a third of a processor was left to it";
  EXPECT_GT(peak.others, 0);
}

TEST_F(ObserverTest, AProfileIsBounded) {
  const auto plan = Trained();
  exec::Executor executor(*plan);
  exec::Profiler profiler(*plan, 10);
  executor.SetObserver(&profiler);
  ASSERT_TRUE(executor.Run(3).ok());
  EXPECT_EQ(profiler.spans().size(), 10u);
  EXPECT_TRUE(profiler.full());
}

TEST(FirstNotFinite, EveryType) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> f = {0, -3e38f, 1e-45f, inf, -inf, NAN};
  EXPECT_EQ(FirstNotFinite(f.data(), DType::kF32, 6), 3);
  EXPECT_EQ(FirstNotFinite(f.data() + 4, DType::kF32, 2), 0);
  EXPECT_EQ(FirstNotFinite(f.data() + 5, DType::kF32, 1), 0);
  EXPECT_EQ(FirstNotFinite(f.data(), DType::kF32, 3), -1);
  const std::vector<uint16_t> half = {0x7bff, 0xfbff, 0x7c00}, brain = {0x7f7f, 0xff7f, 0xffc0};
  EXPECT_EQ(FirstNotFinite(half.data(), DType::kF16, 3), 2);
  EXPECT_EQ(FirstNotFinite(brain.data(), DType::kBF16, 3), 2);
  const std::vector<int64_t> whole = {-1};
  EXPECT_EQ(FirstNotFinite(whole.data(), DType::kI64, 1), -1);
}

TEST_F(ObserverTest, NanCheckNamesTheFirstOperator) {
  const auto plan = Trained();
  exec::Executor executor(*plan);
  const exec::Backend cpu = exec::Backend::Cpu();
  const auto check = exec::NanCheck::Make(*plan, cpu);
  ASSERT_TRUE(check.ok()) << check.status();
  executor.SetObserver(check->get());
  EXPECT_TRUE(executor.Run().ok());
  // The large weights of the first layer are finite, but overflow when multiplied by six.
  scope_.Find("fc_0.w")->span<float>()[2] = 3e38f;
  scope_.Find("fc_0.w")->span<float>()[6] = 3e38f;
  Status status = executor.Run();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("op #0 fc: check_nan_inf: the result fc_0.out[2] of f32[8,4] is not finite "
                        "[TD1210]; all inputs are finite"));
  // The message must say that an input of the program has the NaN.
  plan->Get("x")->span<float>()[5] = NAN;
  status = executor.Run();
  EXPECT_THAT(std::string(status.message()), HasSubstr("not finite before: x[5] of f32[8,6]"));
}

// An update overwrites the parameter, so the message cannot show its previous value.
TEST_F(ObserverTest, NanCheckSaysWhatItCannotKnow) {
  const auto plan = Trained();
  exec::Executor executor(*plan);
  const exec::Backend cpu = exec::Backend::Cpu();
  const auto check = exec::NanCheck::Make(*plan, cpu);
  ASSERT_TRUE(check.ok()) << check.status();
  executor.SetObserver(&**check);
  plan->Get(graph::kLearningRateVar)->span<float>()[0] = std::numeric_limits<float>::infinity();
  const Status status = executor.Run();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(status.message()),
      testing::ContainsRegex("sgd: check_nan_inf: the result [a-z0-9_.]+\\[.* is not finite .*; "
                             "not finite before: [^;]*; the value of [a-z0-9_.]+ is "
                             "unknown, because the result has overwritten it"));
  EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("not finite before: fc")));
}

}  // namespace
}  // namespace tandem
