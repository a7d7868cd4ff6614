// A server that has moved all its buckets away is stopped permanently. The clients must stop
// calling this server.
#include <thread>

#include "pserver/client/carrier/grpc_ps_channel.h"
#include "pserver/client/moves/bucket_migrator.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

constexpr int64_t kHeight = 1000;

class LeftServerTest : public PserverTest {
 protected:
  void SetUp() override {
    StartServers(2, {.data_dir = dir_, .durability = Durability::kLogged});
    client_ = *Client(0, 1);
    const ps::PsTable table = {"emb", kHeight, 1};
    ASSERT_TRUE(client_->Configure({{"b", Shape{4}}}, ps::PsMode::kASync, {}, {table}).ok());
    ASSERT_TRUE(client_->InitOrFetch(Bias()).ok());
    Push(0);
  }
  std::vector<ps::PsTensor> Bias() { return {{"b", bias_.data(), 4}}; }
  void Push(uint64_t step) {
    std::vector<int64_t> ids;
    for (int64_t id = 0; id < kHeight; id += 10) ids.push_back(id);
    const std::vector<float> ones(ids.size(), 1.0f), bias(4, 1.0f);
    Answer<Status> answer;
    client_->Push(step, 1.0f, {{"b", bias.data(), 4}}, answer.Callback(),
                  {{"emb", ids, ones.data()}});
    ASSERT_TRUE(answer.Get().ok());
  }
  // Moves all buckets away from server 1, as `tandem drain --pserver=1` does, and stops it.
  void DrainAndStop() {
    {
      const auto carrier = *ps::GrpcPsChannel::Connect(endpoints_, {});
      ps::BucketMigrator mover(*carrier, endpoints_, {});
      const auto before = mover.Where();
      ASSERT_TRUE(before.ok()) << before.status();
      ASSERT_TRUE(mover.Leave(1).ok());
      const Status moved = mover.Run(ps::PlanDrain(*before, 1), [](const ps::MoveProgress&) {});
      ASSERT_TRUE(moved.ok()) << moved;
      ASSERT_TRUE(mover.Where().ok());
      carrier->Close();
    }
    servers_[1].reset();
  }
  void ExpectAllIsWell() {
    const auto info = client_->ServerInfo();
    ASSERT_TRUE(info.ok()) << info.status();
    ASSERT_EQ(info->size(), 1u);
    EXPECT_EQ((*info)[0].rows, 100u);
    const auto rows = client_->PullTable("emb", /*slots=*/true);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(rows->ids.size(), 100u);
    EXPECT_TRUE(client_->PullState().ok());
    const auto saved = client_->Save();
    EXPECT_TRUE(saved.ok()) << saved.status();
    const Status completed = client_->Complete();
    EXPECT_TRUE(completed.ok()) << completed;
  }

  std::vector<float> bias_ = std::vector<float>(4);
  std::unique_ptr<ps::PsClient> client_;
};

TEST_F(LeftServerTest, IsNotAskedByWhoKnows) {
  DrainAndStop();
  Push(1);  // the reply to this push tells the client of the moves
  const Time begin = SteadyNow();
  const auto info = client_->ServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_LT(SteadyNow() - begin, std::chrono::seconds(30)) << "half of step_timeout";
  ExpectAllIsWell();
}

TEST_F(LeftServerTest, WhoDoesNotKnowHearsOfItFromTheOthers) {
  DrainAndStop();
  const Time begin = SteadyNow();
  const auto info = client_->ServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_LT(SteadyNow() - begin, std::chrono::seconds(30)) << "half of step_timeout";
  ExpectAllIsWell();
}

// This client has not learned of the moves yet. It finds the rows because the other servers name
// the new owners.
TEST_F(LeftServerTest, AllRowsAreFound) {
  DrainAndStop();
  const auto rows = client_->PullTable("emb", /*slots=*/false);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->ids.size(), 100u);
}

}  // namespace
}  // namespace tandem::pserver
