// Tests the metrics of a server (docs/reference/metrics.md).
#include "tests/unit/pserver/pserver_fixture.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::seconds;

// Returns the value of the series "name" or "name{labels}"; -1 if the series is not exported.
double ValueOf(const Metrics& metrics, const std::string& series) {
  const std::string text = "\n" + metrics.Text();
  const size_t at = text.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size() + 2));
}

class ShardMetricsTest : public ShardFixture {
 protected:
  double Waited(int trainer) const {
    return ValueOf(
        metrics_, "tandem_pserver_wait_seconds_total{trainer=\"" + std::to_string(trainer) + "\"}");
  }
};

TEST_F(ShardMetricsTest, TheSlowestTrainerWaitsLeast) {
  Start(Config(3, UpdatePolicy::kSync));
  const std::string waiting = "tandem_pserver_waiting_calls";
  std::vector<std::shared_ptr<StatusOr<PullResult>>> pulled;
  for (int r : {0, 1, 2}) {
    EXPECT_EQ(ValueOf(metrics_, waiting), r);
    ASSERT_TRUE(Push(Head(Rank(r), 1, 0), 1.0f).ok());
    pulled.push_back(Pending());
    PullLater(r, 1, seconds(60), pulled.back());
    clock_.Advance(seconds(2));
  }
  for (const auto& p : pulled) ASSERT_TRUE(p->ok()) << p->status();
  EXPECT_EQ(ValueOf(metrics_, waiting), 0);
  EXPECT_EQ(Waited(0), 4);
  EXPECT_EQ(Waited(1), 2);
  EXPECT_EQ(Waited(2), 0);
}

TEST_F(ShardMetricsTest, WaitsThatFailCountToo) {
  Start(Config(2, UpdatePolicy::kSync));
  auto pulled = Pending();
  PullLater(1, 1, seconds(3), pulled);
  clock_.Advance(seconds(3));
  shard_->ExpireWaiters();
  EXPECT_EQ(pulled->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Waited(1), 3);
  EXPECT_EQ(ValueOf(metrics_, "tandem_pserver_waiting_calls"), 0);
}

class PserverMetricsTest : public PserverTest {
 protected:
  double Calls(const std::string& call) const {
    return ValueOf(metrics_, "tandem_pserver_call_seconds_count{call=\"" + call + "\"}");
  }
  double Errors(const std::string& call) const {
    return ValueOf(metrics_, "tandem_pserver_call_errors_total{call=\"" + call + "\"}");
  }
};

TEST_F(PserverMetricsTest, CallsAreCountedByWhateverRoadTheyCome) {
  for (const ps::PsTransport transport : {ps::PsTransport::kGrpc, ps::PsTransport::kShm}) {
    const double pushes = std::max(0.0, Calls("Push")), pulls = std::max(0.0, Calls("Pull"));
    const double refused = std::max(0.0, Errors("Push"));
    servers_.clear();
    endpoints_.clear();
    StartServers(1);
    auto client = *Client(0, 1, {.transport = transport});
    Model model;
    ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {}).ok());
    ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
    for (uint64_t step = 0; step < 5; ++step) {
      ASSERT_TRUE(PushAndWait(*client, step, 0.1f, model.View(model.Gradients(0, step))).ok());
    }
    ASSERT_TRUE(PullAndWait(*client, 5, model.Tensors()).ok());
    EXPECT_FALSE(PushAndWait(*client, 77, 0.1f, model.View(model.Gradients(0, 5))).ok());
    EXPECT_EQ(Calls("Push"), pushes + 6);
    EXPECT_EQ(Calls("Pull"), pulls + 2);  // one of the pulls is in InitOrFetch
    EXPECT_EQ(Errors("Push"), refused + 1);
    EXPECT_EQ(Errors("Pull"), 0);
  }
  EXPECT_EQ(Calls("Barrier"), 0);  // the metric exists although no trainer has called Barrier
  EXPECT_EQ(Calls("Configure"), 2);
}

TEST_F(PserverMetricsTest, LogAndCheckpoints) {
  const std::string written = "tandem_pserver_checkpoint_timestamp_seconds";
  PserverOptions options;
  options.data_dir = dir_;
  options.durability = Durability::kLogged;
  StartServers(1, options);
  EXPECT_EQ(ValueOf(metrics_, written), 0);
  auto client = *Client(0, 1);
  Model model;
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  EXPECT_GT(ValueOf(metrics_, written), 1.7e9);  // InitOrFetch wrote the initial values
  EXPECT_EQ(ValueOf(metrics_, "tandem_pserver_checkpoint_seconds_count"), 1);
  ASSERT_TRUE(PushAndWait(*client, 0, 0.1f, model.View(model.Gradients(0, 0))).ok());
  EXPECT_GE(ValueOf(metrics_, "tandem_pserver_wal_write_seconds_count"), 1);
  EXPECT_GT(ValueOf(metrics_, "tandem_pserver_wal_bytes_total"), 4 * (37 * 11 + 11 + 11 * 5));
}

}  // namespace
}  // namespace tandem::pserver
