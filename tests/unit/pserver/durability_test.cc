// Tests the state that outlives a server process, and a trainer that replaces another trainer.
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

TEST_F(PserverTest, TheLogBringsBackWhatTheCheckpointLacks) {
  PserverOptions options;
  options.data_dir = dir_;
  options.durability = Durability::kLogged;
  options.log_bytes_max = 20'000;  // a small limit, so that a checkpoint is made every few steps
  Model model, reference;
  Status status;
  StartServers(2);
  {
    auto client = *Client(0, 1);
    ASSERT_TRUE(client->Configure(reference.variables, ps::PsMode::kSync, {"adam", {}}).ok());
    ASSERT_TRUE(client->InitOrFetch(reference.Tensors()).ok());
    TrainSync(client.get(), &reference, 0, 0, 24, &status);
    ASSERT_TRUE(status.ok()) << status;
  }
  for (uint64_t begin = 0; begin < 24; begin += 8) {
    servers_.clear();  // ends the servers, which save nothing
    endpoints_.clear();
    StartServers(2, options);
    EXPECT_EQ(servers_[0]->restored_version(), begin);
    auto client = *Client(0, 1);
    const auto state = client->Configure(model.variables, ps::PsMode::kSync, {"adam", {}});
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(state->restored, begin != 0);
    Model fetched;
    ASSERT_EQ(*client->InitOrFetch(fetched.Tensors()), begin);
    EXPECT_EQ(fetched.params, model.params);
    TrainSync(client.get(), &model, 0, begin, begin + 8, &status);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(model.params, reference.params);
}

// Trainer 1 is killed in a step that server 1 has completed and server 0 has not. Its replacement
// computes the step again from the parameters before the step, which both servers still have.
// Server 1 ignores the gradient of the replacement.
TEST_F(PserverTest, ATrainerIsReplacedBetweenTwoServers) {
  StartServers(2);
  // Each server has one of the two variables.
  const std::vector<ps::PsVariable> variables = {{"a", Shape{1}}, {"b", Shape{1}}};
  float first[2] = {10, 20};
  const float one = 1, two = 2;
  std::unique_ptr<ps::PsClient> clients[2];
  const auto tensors = [](float* v) {
    return std::vector<ps::PsTensor>{{"a", v, 1}, {"b", v + 1, 1}};
  };
  for (int t : {0, 1}) {
    clients[t] = *Client(t, 2);
    ASSERT_TRUE(clients[t]->Configure(variables, ps::PsMode::kSync, {}).ok());
  }
  for (int t : {0, 1}) ASSERT_TRUE(clients[t]->InitOrFetch(tensors(first)).ok());
  ASSERT_TRUE(PushAndWait(*clients[0], 0, 1.0f, {{"a", &one, 1}, {"b", &one, 1}}).ok());
  ASSERT_TRUE(PushAndWait(*clients[1], 0, 1.0f, {{"b", &two, 1}}).ok());
  EXPECT_EQ((*clients[0]->ServerInfo())[0].version, 0u);
  EXPECT_EQ((*clients[0]->ServerInfo())[1].version, 1u);

  clients[1] = *Client(1, 2);
  ASSERT_TRUE(clients[1]->Configure(variables, ps::PsMode::kSync, {}).ok());
  float again[2] = {0, 0};
  ASSERT_EQ(*clients[1]->InitOrFetch(tensors(again)), 0u);
  EXPECT_THAT(again, testing::ElementsAre(10, 20));
  ASSERT_TRUE(PushAndWait(*clients[1], 0, 1.0f, {{"a", &two, 1}, {"b", &two, 1}}).ok());
  ASSERT_EQ(*PullAndWait(*clients[1], 1, tensors(again)), 1u);
  EXPECT_THAT(again, testing::ElementsAre(7, 17));
  // In the next step both servers accept the gradients of the new trainer process.
  for (int t : {0, 1}) {
    ASSERT_TRUE(PushAndWait(*clients[t], 1, 1.0f, {{"a", &one, 1}, {"b", &one, 1}}).ok());
  }
  ASSERT_EQ(*PullAndWait(*clients[1], 2, tensors(again)), 2u);
  EXPECT_THAT(again, testing::ElementsAre(5, 15));
}

}  // namespace
}  // namespace tandem::pserver
