// Tests of common/base: statuses, time, queues, threads, random numbers, metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <latch>
#include <optional>
#include <set>
#include <thread>

#include "common/base/check.h"
#include "common/base/metrics.h"
#include "common/base/require.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/os/file_limit.h"
#include "common/os/ports.h"
#include "common/os/processors.h"
#include "common/threads/bounded_queue.h"
#include "common/threads/fork_join.h"
#include "common/threads/runner.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(Status, KeepsCodeAndSaysWhere) {
  const Status status = Annotate(NotFound("no variable \"%s\"", "w"), "pserver 1");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(ToString(status), "pserver 1: no variable \"w\" (NOT_FOUND)");
  EXPECT_TRUE(Annotate(OkStatus(), "x").ok());
}

TEST(Status, MapsToExitCodes) {
  EXPECT_EQ(ExitCodeOf(OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(InvalidArgument("x")), 2);
  EXPECT_EQ(ExitCodeOf(DataLoss("x")), 65);
  EXPECT_EQ(ExitCodeOf(Unavailable("x")), 69);
  EXPECT_GE(ExitCodeOf(Aborted("x")), 128) << "a lost peer is worth a restart";
}

TEST(Ports, FreeOnesStandInARowWhereNoConnectionGetsOne) {
  const auto first = FreePorts("127.0.0.1", 64);
  ASSERT_TRUE(first.ok()) << first.status();
  int low = 0, high = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> low >> high;
  EXPECT_TRUE(*first + 64 <= low || *first > high) << *first;
  const auto taken = BindPort("127.0.0.1", *first + 63);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(listen(taken->get(), 1), 0);
  const auto again = BindPort("localhost", *first + 63);
  EXPECT_EQ(again.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(again.status().message()),
              HasSubstr("of localhost: Address already in use"));
  EXPECT_EQ(FreePorts("127.0.0.1", 60000).status().code(), StatusCode::kUnavailable);
}

TEST(Ports, ReservedOnesAreUsableAndNotFoundAgain) {
  const auto reserved = ReservePorts("0.0.0.0", 3);
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  ASSERT_EQ(reserved->sockets.size(), 3u);
  for (int port = reserved->first; port < reserved->first + 3; ++port) {
    const auto used = BindPort("127.0.0.1", port);
    ASSERT_TRUE(used.ok()) << used.status();
    EXPECT_EQ(listen(used->get(), 1), 0) << port;
    // ReservePorts binds sockets without SO_REUSEADDR first.
    const Fd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), -1);
  }
}

TEST(BoundedQueue, IsFirstInFirstOutAndBounded) {
  BoundedQueue<int> queue(2);
  EXPECT_EQ(queue.TryPush(1), PushResult::kOk);
  EXPECT_EQ(queue.TryPush(2), PushResult::kOk);
  EXPECT_EQ(queue.TryPush(3), PushResult::kFull);
  EXPECT_EQ(queue.Push(3, SteadyNow() + milliseconds(5)), PushResult::kFull);
  EXPECT_EQ(queue.Pop(SteadyNow()), 1);
  EXPECT_EQ(queue.Pop(SteadyNow()), 2);
  EXPECT_EQ(queue.Pop(SteadyNow() + milliseconds(5)), std::nullopt);
}

TEST(BoundedQueue, ClosedOneIsDrainedAndWakesWaiters) {
  BoundedQueue<int> queue(1);
  ASSERT_EQ(queue.TryPush(7), PushResult::kOk);
  std::thread producer([&] { EXPECT_EQ(queue.Push(8, Time::max()), PushResult::kClosed); });
  queue.Close();
  producer.join();
  EXPECT_EQ(queue.Pop(Time::max()), 7);
  EXPECT_EQ(queue.Pop(Time::max()), std::nullopt);
}

TEST(BoundedQueue, ManyThreadsLoseNothing) {
  BoundedQueue<int> queue(4);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> consumers, producers;
  for (int t = 0; t < 3; ++t) {
    consumers.emplace_back([&] {
      while (auto item = queue.Pop(Time::max())) sum += *item;
    });
    producers.emplace_back([&] {
      for (int i = 1; i <= 1000; ++i) ASSERT_EQ(queue.Push(int{i}, Time::max()), PushResult::kOk);
    });
  }
  for (auto& p : producers) p.join();
  queue.Close();
  for (auto& c : consumers) c.join();
  EXPECT_EQ(sum, 3 * 500500);
}

TEST(ThreadPool, RunsWhatItAcceptedAndRefusesTheRest) {
  std::atomic<int> ran{0};
  int accepted = 0;
  {
    ThreadPool pool("test", 2, 8);
    for (int i = 0; i < 100; ++i) accepted += pool.Post([&] { ++ran; }).ok() ? 1 : 0;
  }
  EXPECT_EQ(ran, accepted);
  EXPECT_GE(accepted, 8);
}

TEST(ForkJoin, DoesEachPartOnceAndWaitsForAll) {
  ForkJoin workers("test", 3);
  for (int parts = 1; parts <= 3; ++parts) {
    std::vector<int> done(3, 0);
    std::vector<std::thread::id> by(3);
    for (int round = 0; round < 100; ++round) {
      workers.Run(parts, [&](int part) {
        ++done[static_cast<size_t>(part)];
        by[static_cast<size_t>(part)] = std::this_thread::get_id();
      });
    }
    for (int part = 0; part < 3; ++part) {
      EXPECT_EQ(done[static_cast<size_t>(part)], part < parts ? 100 : 0);
    }
    EXPECT_EQ(by[0], std::this_thread::get_id());
    if (parts > 1) {
      EXPECT_NE(by[1], by[0]);
    }
  }
}

cpu_set_t ProcessorsOf(pthread_t thread) {
  cpu_set_t set;
  CHECK_EQ(pthread_getaffinity_np(thread, sizeof(set), &set), 0);
  return set;
}

bool StayOn(const cpu_set_t& set) {
  if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0) return false;
  const cpu_set_t now = ProcessorsOf(pthread_self());
  return CPU_EQUAL(&now, &set);
}

// Returns the processors that this thread may use, if these are two to eight processors and the
// kernel lets a thread choose among them. Otherwise returns nullopt.
std::optional<cpu_set_t> FewProcessors() {
  const cpu_set_t all = ProcessorsOf(pthread_self());
  const int count = CPU_COUNT(&all);
  if (count < 2 || count > 8) return std::nullopt;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  const bool chosen = StayOn(one);
  return StayOn(all) && chosen ? std::optional(all) : std::nullopt;
}

TEST(LeaderCpuTracker, SendsOthersAwayAndLetsThemGo) {
  const auto few = FewProcessors();
  if (!few) GTEST_SKIP() << "one processor, or many";
  const cpu_set_t all = *few;
  const int count = CPU_COUNT(&all);
  LeaderCpuTracker leader;
  ASSERT_TRUE(leader.Moved());
  std::latch end(1);
  std::thread other([&end] { end.wait(); });
  leader.SendAway(other.native_handle());
  const cpu_set_t away = ProcessorsOf(other.native_handle());
  EXPECT_EQ(CPU_COUNT(&away), count - 1);
  leader.LetGo(other.native_handle());
  const cpu_set_t free = ProcessorsOf(other.native_handle());
  EXPECT_TRUE(CPU_EQUAL(&free, &all));
  end.count_down();
  other.join();
}

TEST(LeaderCpuTracker, IsAloneOnOneProcessor) {
  const auto all = FewProcessors();
  if (!all) GTEST_SKIP() << "one processor, or many";
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_TRUE(StayOn(one));
  EXPECT_FALSE(LeaderCpuTracker().Moved());
  EXPECT_TRUE(StayOn(*all));
}

// During a task the worker avoids the processor of the calling thread. After the task the worker
// may use all processors again.
TEST(ForkJoin, LetsItsThreadsGoBehindAPiece) {
  const auto all = FewProcessors();
  if (!all) GTEST_SKIP() << "one processor, or many";
  ForkJoin workers("test", 2);
  pthread_t worker = {};
  int during = 0;
  workers.Run(2, [&](int part) {
    if (part == 0) return;
    worker = pthread_self();
    const cpu_set_t now = ProcessorsOf(worker);
    during = CPU_COUNT(&now);
  });
  EXPECT_EQ(during, CPU_COUNT(&*all) - 1);
  const cpu_set_t behind = ProcessorsOf(worker);
  EXPECT_TRUE(CPU_EQUAL(&behind, &*all));
}

TEST(ThreadPool, FullQueueIsResourceExhausted) {
  BoundedQueue<int> gate(1);
  ThreadPool pool("test", 1, 1);
  Status status;
  for (int i = 0; i < 4 && status.ok(); ++i) {
    status = pool.Post([&] { (void)gate.Pop(Time::max()); });
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  gate.Close();
}

// The expected values are the known-answer vectors of philox4x32-10 in Random123's file
// kat_vectors.
TEST(Rng, PhiloxKnownAnswers) {
  EXPECT_THAT(Philox(0, 0),
              testing::ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
}

TEST(Rng, UniformIsUniformAndNormalIsNormal) {
  const uint64_t key = StreamKey(1, "test");
  constexpr int kN = 100000;
  double sum = 0, normal = 0, square = 0;
  for (int i = 0; i < kN; ++i) {
    const float u = UniformAt(key, i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
    const float z = NormalAt(key, i);
    normal += z;
    square += double{z} * z;
  }
  EXPECT_NEAR(sum / kN, 0.5, 0.005);
  EXPECT_NEAR(normal / kN, 0.0, 0.02);
  EXPECT_NEAR(square / kN, 1.0, 0.02);
}

TEST(Rng, StreamsDifferByPurposeAndSeed) {
  std::set<uint64_t> keys = {StreamKey(1, "a"), StreamKey(2, "a"), StreamKey(1, "b")};
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(StreamKey(1, "a"), StreamKey(1, "a"));
}

TEST(Rng, PermutationHasEveryNumberOnce) {
  const auto order = Permutation(StreamKey(1, "epoch:0"), 1000);
  EXPECT_EQ(std::set<uint32_t>(order.begin(), order.end()).size(), 1000u);
  EXPECT_NE(order, Permutation(StreamKey(1, "epoch:1"), 1000));
  EXPECT_TRUE(Permutation(1, 0).empty());
}

TEST(Metrics, PrometheusText) {
  Metrics metrics;
  metrics.GetCounter("pushes_total", "Pushes taken.", {{"server", "0"}}).Add(3);
  metrics.GetCounter("pushes_total", "Pushes taken.", {{"server", "0"}}).Add(1);
  metrics.GetGauge("version", "Updates applied.").Set(7);
  metrics.GetHistogram("wait_seconds", "Waits.", {0.1, 1.0}).Observe(0.5);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("pushes_total{server=\"0\"} 4"));
  EXPECT_THAT(text, HasSubstr("version 7"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"1\"} 1"));
}

TEST(Clock, FakeClockMovesWhenTold) {
  FakeClock clock;
  const Time before = clock.Now();
  clock.Advance(std::chrono::seconds(2));
  EXPECT_EQ(clock.Now() - before, std::chrono::seconds(2));
  EXPECT_EQ(FormatDuration(std::chrono::seconds(2)), "2.0s");
  EXPECT_EQ(FormatDuration(milliseconds(350)), "350ms");
}

TEST(FileLimit, BecomesTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 128;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  RaiseFileLimit();
  rlimit now{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Require, EndsADebugBuildAndIsNotEvaluatedInARelease) {
#ifdef NDEBUG
  int evaluated = 0;
  TD_REQUIRE(++evaluated == 2);
  EXPECT_EQ(evaluated, 0);
#else
  const auto fails = [] { TD_REQUIRE(1 + 1 == 3); };  // the macro expands to code with commas
  EXPECT_DEATH(fails(), "1 \\+ 1 == 3");
#endif
}

}  // namespace
}  // namespace tandem
