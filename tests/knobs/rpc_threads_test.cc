// rpc_send_thread_num, rpc_get_thread_num, rpc_prefetch_thread_num: the maximum number of
// concurrent calls of each kind on a server.
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/knobs/knob_programs.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::trainer {
namespace {

class RpcThreadsTest : public pserver::PserverTest {
 protected:
  static constexpr int64_t kElements = 1 << 20;  // 4 MiB, so that a push takes some time
  static constexpr int kTrainers = 4;

  // Returns the number of threads of this process that are called `name`-N.
  static int ThreadsNamed(const std::string& name) {
    int count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string comm;
      std::getline(std::ifstream(task.path() / "comm"), comm);
      const bool numbered = comm.size() > name.size() + 1 && std::isdigit(comm[name.size() + 1]);
      count += comm.starts_with(name + "-") && numbered;
    }
    return count;
  }
  void Start(int pushes, int pulls, int row_pulls) {
    pserver::PserverOptions options;
    options.calls.pushes = pushes;
    options.calls.pulls = pulls;
    options.calls.row_pulls = row_pulls;
    StartServers(1, options);
    // A thread sets its name some time after its start.
    EXPECT_TRUE(WaitUntil([&] {
      return ThreadsNamed("push") == pushes && ThreadsNamed("pull") == pulls &&
             ThreadsNamed("row-pull") == row_pulls;
    })) << ThreadsNamed("push")
        << " " << ThreadsNamed("pull") << " " << ThreadsNamed("row-pull");
  }
  // Makes every trainer repeatedly push, pull, and pull rows.
  void Work() {
    std::vector<std::unique_ptr<ps::PsClient>> clients;
    const ps::PsTable table{.variable = "emb", .height = 1 << 20, .dim = 16};
    for (int t = 0; t < kTrainers; ++t) {
      clients.push_back(*Client(t, kTrainers, {.transport = ps::PsTransport::kGrpc}));
      const Status status =
          clients[t]
              ->Configure({{"w", Shape{kElements}}}, ps::PsMode::kASync, {}, {table})
              .status();
      ASSERT_TRUE(status.ok()) << status;
    }
    std::vector<float> zeros(kElements);
    const ps::PsTensor first = {"w", zeros.data(), kElements};
    ASSERT_TRUE(clients[0]->InitOrFetch({&first, 1}).ok());
    std::vector<std::thread> trainers;
    for (auto& client : clients) {
      trainers.emplace_back([&client = *client] { WorkOf(client); });
    }
    for (std::thread& trainer : trainers) trainer.join();
  }
  static void WorkOf(ps::PsClient& client) {
    constexpr int kAtOnce = 4;
    constexpr size_t kRows = 20000;
    std::vector<float> gradient(kElements, 1.0f), pulled(kElements), rows(kRows * 16);
    ps::PsRows asked{.variable = "emb", .ids = {}, .to = {}};
    for (size_t i = 0; i < kRows; ++i) {
      asked.ids.push_back(static_cast<int64_t>(i * 47));
      asked.to.push_back(rows.data() + i * 16);
    }
    for (uint64_t step = 0; step < 10; ++step) {
      pserver::Answer<Status> pushes[kAtOnce];
      pserver::Answer<StatusOr<uint64_t>> pulls[kAtOnce], row_pulls[kAtOnce];
      for (int i = 0; i < kAtOnce; ++i) {
        client.Push(step, 0.1f, {{"w", gradient.data(), kElements}}, pushes[i].Callback());
        client.Pull(0, {{"w", pulled.data(), kElements}}, pulls[i].Callback());
        client.PullRows({}, {asked}, row_pulls[i].Callback());
      }
      for (int i = 0; i < kAtOnce; ++i) {
        EXPECT_TRUE(pushes[i].Get().ok());
        EXPECT_TRUE(pulls[i].Get().ok());
        EXPECT_TRUE(row_pulls[i].Get().ok());
      }
    }
  }
  double MostAtOnce(const std::string& calls) {
    return metrics_.GetGauge("tandem_pserver_busy_threads_max", "", {{"calls", calls}}).Value();
  }
};

TEST_F(RpcThreadsTest, OneOfEachKind) {
  Start(1, 1, 1);
  Work();
  for (const char* calls : {"push", "pull", "row-pull"}) EXPECT_EQ(MostAtOnce(calls), 1) << calls;
}

TEST_F(RpcThreadsTest, AsManyAsTheKnobSays) {
  Start(3, 4, 5);
  Work();
  const std::pair<const char*, int> most[] = {{"push", 3}, {"pull", 4}, {"row-pull", 5}};
  for (const auto& [calls, threads] : most) {
    EXPECT_GT(MostAtOnce(calls), 1) << calls;
    EXPECT_LE(MostAtOnce(calls), threads) << calls;
  }
}

TEST_F(RpcThreadsTest, NumbersOutOfRangeAreRefused) {
  for (const int threads : {0, 1025}) {
    pserver::PserverOptions options;
    options.calls.pushes = threads;
    EXPECT_EQ(pserver::Pserver::Start(options, metrics_).status().code(),
              StatusCode::kInvalidArgument);
  }
}

// tandemrun passes the numbers of threads to its servers.
using RpcThreadsJobTest = JobTest;
TEST_F(RpcThreadsJobTest, TheJobSaysHowMany) {
  const auto job = StartJob("job", {"--mode=pserver", "--servers=1", "--workers=1"},
                            {"--rpc_send_thread_num=3", "--rpc_get_thread_num=2", "--epochs=1000",
                             "--rpc_prefetch_thread_num=1"});
  std::vector<pid_t> servers;
  ASSERT_TRUE(WaitUntil([&] {
    servers = ChildrenOf(job->pid(), "tandem-pserver");
    return !servers.empty();
  }));
  const auto threads = [&](const std::string& name) {
    int count = 0;
    std::error_code gone;
    const std::string tasks = "/proc/" + std::to_string(servers[0]) + "/task";
    for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
      count += ReadWholeFile(task.path() / "comm").starts_with(name + "-");
    }
    return count;
  };
  EXPECT_TRUE(WaitUntil(
      [&] { return threads("push") == 3 && threads("pull") == 2 && threads("row-pull") == 1; }, 60))
      << threads("push") << " " << threads("pull") << " " << threads("row-pull");
}

}  // namespace
}  // namespace tandem::trainer
