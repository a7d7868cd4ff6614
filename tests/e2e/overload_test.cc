// Tests a pserver under overload: the second phase has four times the callers of the first phase,
// and each caller pushes as fast as it can. Every push must be accepted, or rejected with an error
// code. The rate of accepted pushes must not fall, and memory must not grow.
//   TANDEM_OVERLOAD_SECONDS=N seconds of each of the two phases (1)
//
// A phase lasts at least N seconds, and continues until the server has accepted a push of every
// caller, but at most a minute. If N is at least 10 (tests/long/overload.sh, on an idle machine),
// the rate of the second phase must be at least 0.9 of the rate of the first phase. With a smaller
// N the test only prints the rates, because other tests share the machine.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "pserver/client/client.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

constexpr int kCallers = 4, kTimes = 4, kTrainers = kCallers * kTimes;
constexpr int kUnderWay = 8;  // maximum number of concurrent pushes of one caller
constexpr int64_t kNumel = 1 << 16;
constexpr size_t kPushBytes = kNumel * sizeof(float);
constexpr int kStrictSeconds = 10;

int PhaseSeconds() {
  const char* text = std::getenv("TANDEM_OVERLOAD_SECONDS");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

// Returns the resident memory of a process in bytes.
size_t MemoryOf(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/statm");
  size_t all = 0, resident = 0;
  status >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// A thread that pushes until Stop is called. The caller has up to kUnderWay pushes in progress.
class Caller {
 public:
  Caller(ps::PsClient& client, const std::vector<float>& gradient)
      : client_(client), gradient_(gradient), thread_([this] { Loop(); }) {}
  ~Caller() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int64_t taken() const { return taken_; }
  int64_t refused() const { return refused_; }
  // Returns the last error of a push that is not RESOURCE_EXHAUSTED (a rejection); OK: no such
  // error. Valid after Stop.
  Status other() const {
    MutexLock lock(mu_);
    return other_;
  }

 private:
  void Loop() {
    for (uint64_t step = 0; !stop_; ++step) {
      {
        MutexLock lock(mu_);
        while (under_way_ == kUnderWay) cv_.WaitUntil(mu_, Time::max());
        ++under_way_;
      }
      client_.Push(step, 1e-6f, {{"w", gradient_.data(), kNumel}},
                   [this](const Status& status) { Ended(status); });
    }
    MutexLock lock(mu_);
    while (under_way_ > 0) cv_.WaitUntil(mu_, Time::max());
  }
  void Ended(const Status& status) {
    MutexLock lock(mu_);
    if (status.ok()) {
      ++taken_;
    } else if (status.code() == StatusCode::kResourceExhausted) {
      ++refused_;
    } else {
      other_ = status;
    }
    --under_way_;
    cv_.NotifyAll();
  }

  ps::PsClient& client_;
  const std::vector<float>& gradient_;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> taken_ = 0, refused_ = 0;
  mutable Mutex mu_;
  CondVar cv_;
  int under_way_ TD_GUARDED_BY(mu_) = 0;
  Status other_ TD_GUARDED_BY(mu_);
  std::thread thread_;
};

class OverloadTest : public JobTest {
 protected:
  struct Phase {
    double per_second = 0;
    int64_t refused = 0;
    // Maximum memory of the server in bytes, in each half of the phase.
    size_t first_half = 0, second_half = 0;
  };

  std::unique_ptr<ps::PsClient> Client(const std::string& endpoint, int trainer) {
    ps::PsOptions options;
    options.trainer = trainer;
    options.trainers = kTrainers;
    options.transport = ps::PsTransport::kGrpc;
    auto client = ps::PsClient::Connect({endpoint}, options);
    CHECK(client.ok()) << client.status();
    const auto state = (*client)->Configure({{"w", Shape{kNumel}}}, ps::PsMode::kASync, {});
    CHECK(state.ok()) << state.status();
    const ps::PsTensor values = {"w", values_.data(), kNumel};
    const auto version = (*client)->InitOrFetch({&values, 1});
    CHECK(version.ok()) << version.status();
    return *std::move(client);
  }
  Phase Run(int callers, pid_t server) {
    std::vector<std::unique_ptr<Caller>> all;
    for (int i = 0; i < callers; ++i) {
      all.push_back(std::make_unique<Caller>(*clients_[i], gradient_));
    }
    const auto count = [&](auto of) {
      int64_t sum = 0;
      for (const auto& caller : all) sum += ((*caller).*of)();
      return sum;
    };
    Phase phase;
    const Time begin = SteadyNow();
    const double seconds = PhaseSeconds();
    const auto all_served = [&] {
      return std::all_of(all.begin(), all.end(), [](const auto& c) { return c->taken() > 0; });
    };
    constexpr double kSecondsMax = 60;
    for (double now = 0; now < seconds || (!all_served() && now < kSecondsMax);
         now = Seconds(SteadyNow() - begin)) {
      const bool second = now > seconds / 2;
      size_t& most = second ? phase.second_half : phase.first_half;
      most = std::max(most, MemoryOf(server));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    phase.per_second = static_cast<double>(count(&Caller::taken)) / Seconds(SteadyNow() - begin);
    for (const auto& caller : all) {
      caller->Stop();
      EXPECT_TRUE(caller->other().ok()) << caller->other();
      EXPECT_GT(caller->taken(), 0) << "somebody was served nothing";
    }
    phase.refused = count(&Caller::refused);
    return phase;
  }

  std::vector<float> values_ = std::vector<float>(kNumel, 1.0f);
  std::vector<float> gradient_ = std::vector<float>(kNumel, 1.0f);
  std::vector<std::unique_ptr<ps::PsClient>> clients_;
};

TEST_F(OverloadTest, WhatIsTakenStaysAndMemoryIsFlat) {
  const std::string endpoint = "127.0.0.1:" + std::to_string(FreePort());
  ChildProcess server("tandem-pserver", {"--listen=" + endpoint}, {}, Path("server"));
  ASSERT_TRUE(server.WaitForText("listening on"));
  for (int t = 0; t < kTrainers; ++t) clients_.push_back(Client(endpoint, t));
  const size_t idle = MemoryOf(server.pid());
  const Phase capacity = Run(kCallers, server.pid());
  const Phase overload = Run(kTrainers, server.pid());
  const auto mb = [](size_t bytes) { return static_cast<double>(bytes) / 1e6; };
  std::printf(
      "overload: capacity %.0f pushes/s, with %d times the callers %.0f (%lld refused); "
      "memory %.0f MB idle, %.0f and %.0f MB in the halves\n",
      capacity.per_second, kTimes, overload.per_second, static_cast<long long>(overload.refused),
      mb(idle), mb(overload.first_half), mb(overload.second_half));
  // A push in progress may be in memory three times: in gRPC, in the frames of its message, and in
  // the shard.
  EXPECT_LT(mb(overload.second_half), mb(idle) + mb(3 * kTrainers * kUnderWay * kPushBytes) + 64);
  if (PhaseSeconds() < kStrictSeconds) return;
  EXPECT_GE(overload.per_second, 0.9 * capacity.per_second);
  EXPECT_LT(mb(overload.second_half), 1.1 * mb(overload.first_half) + 8);
}

}  // namespace
}  // namespace tandem
