// Followers of dense variables get the values of each server's versions, whatever happens to the
// servers: restarts, restores, replicas.
#include "pserver/client/follow/variable_follower.h"

#include <atomic>
#include <thread>

#include "pserver/client/carrier/grpc_ps_channel.h"
#include "pserver/client/moves/bucket_migrator.h"
#include "tests/unit/pserver/replica_fixture.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::map<std::string, std::vector<float>>;

class FollowVariablesTest : public ReplicaTest {
 protected:
  // Starts a server at a Unix-domain socket, at which it can be started again.
  void Start(const std::string& name, int index) {
    PserverOptions options = OptionsOf(name, index);
    options.rpc.listen = {.path = dir_ + "/socket-" + std::to_string(index)};
    options.rpc.patience = kPatience;
    auto server = Pserver::Start(options, metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    if (servers_.size() == static_cast<size_t>(index)) {
      servers_.push_back(nullptr);
      endpoints_.push_back(ToString(options.rpc.listen));
    }
    servers_[static_cast<size_t>(index)] = *std::move(server);
  }
  std::unique_ptr<ps::PsClient> Trainer() {
    ps::PsOptions options;
    options.patience.retries = 1000;
    options.patience.step_timeout = kPatience;
    auto client = *Client(0, 1, options);
    CHECK(client->Configure(model_.variables, ps::PsMode::kSync, {"momentum", {}}).ok());
    CHECK(client->InitOrFetch(model_.Tensors()).ok());
    return client;
  }
  void Train(ps::PsClient& client, uint64_t from, uint64_t to) {
    Status status;
    TrainSync(&client, &model_, 0, from, to, &status);
    ASSERT_TRUE(status.ok()) << status;
  }
  // Trains from step `from` until `moves` has returned: in sync mode, a move ends at a step.
  void TrainDuring(ps::PsClient& client, uint64_t from, const std::function<Status()>& moves) {
    std::atomic<bool> moved = false;
    Status status;
    std::thread mover([&] {
      status = moves();
      moved = true;
    });
    for (uint64_t step = from; !moved; ++step) Train(client, step, step + 1);
    mover.join();
    ASSERT_TRUE(status.ok()) << status;
  }
  static std::unique_ptr<ps::VariableFollower> Follow(const std::vector<std::string>& servers,
                                                      ps::VariableFollowOptions follow = {},
                                                      Duration timeout = kPatience) {
    follow.interval = std::chrono::milliseconds(1);
    auto follower = ps::VariableFollower::Connect(servers, {.timeout = timeout}, follow);
    CHECK(follower.ok()) << follower.status();
    return *std::move(follower);
  }
  Values Expected() const {
    Values values;
    for (size_t i = 0; i < model_.variables.size(); ++i) {
      values[model_.variables[i].name] = model_.params[i];
    }
    return values;
  }
  // Reads changes until the values are those of the model.
  void Await(ps::VariableFollower& follower) const {
    const Values expected = Expected();
    const Time until = SteadyNow() + kPatience;
    while (follower.variables() != expected && SteadyNow() < until) {
      const auto change = follower.Next(std::chrono::milliseconds(20));
      ASSERT_TRUE(change.ok()) << change.status();
    }
    EXPECT_EQ(follower.variables(), expected);
  }

  Model model_;
  std::vector<std::unique_ptr<ps::VariableFollower>> followers_;
};

TEST_F(FollowVariablesTest, AFollowerGetsAllVariablesAndThenEachVersion) {
  Start("a", 0);
  Start("b", 1);
  const auto client = Trainer();
  Train(*client, 0, 3);
  const auto follower = Follow(endpoints_);
  const auto first = follower->Next(kPatience);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->has_value());
  EXPECT_THAT((*first)->changed, ElementsAre("fc_0.b", "fc_0.w", "fc_1.w"));
  EXPECT_THAT((*first)->versions, ElementsAre(3, 3));
  EXPECT_EQ(follower->variables(), Expected());
  EXPECT_FALSE((*follower->Next(std::chrono::milliseconds(50))).has_value());
  Train(*client, 3, 8);
  Await(*follower);
}

// With every=5, a follower gets only versions that are five updates apart.
TEST_F(FollowVariablesTest, AFollowerOfSomeVariablesGetsEveryFifthVersion) {
  Start("a", 0);
  const auto client = Trainer();
  const auto follower = Follow(endpoints_, {.variables = {"fc_1.w"}, .every = 5});
  const auto first = follower->Next(kPatience);
  ASSERT_TRUE(first.ok() && first->has_value()) << first.status();
  EXPECT_THAT((*first)->versions, ElementsAre(0));
  uint64_t version = 0;
  for (uint64_t step = 0; step < 20; ++step) {
    Train(*client, step, step + 1);
    const bool due = step + 1 == version + 5;
    const auto change = follower->Next(due ? kPatience : std::chrono::milliseconds(5));
    ASSERT_TRUE(change.ok()) << change.status();
    ASSERT_EQ(change->has_value(), due) << step;
    if (!due) continue;
    version = (*change)->versions[0];
    EXPECT_EQ(version, step + 1);
    EXPECT_THAT((*change)->changed, ElementsAre("fc_1.w"));
    EXPECT_EQ(follower->variables().at("fc_1.w"), model_.params[2]);
    EXPECT_EQ(follower->variables().size(), 1u);
  }
  EXPECT_EQ(version, 20u);
}

// The values of one server are of one version, while the trainer changes them.
TEST_F(FollowVariablesTest, AChangeHasOneVersionOfEachServer) {
  Start("a", 0);
  Start("b", 1);
  const auto client = Trainer();
  std::map<uint64_t, Values> of_version = {{0, Expected()}};
  Model* const trained = &model_;
  const auto follower = Follow(endpoints_);
  ASSERT_TRUE(follower->Next(kPatience).ok());
  std::vector<std::pair<std::vector<uint64_t>, Values>> seen;
  Status status;
  std::thread trainer([&] {
    for (uint64_t step = 0; step < 60 && status.ok(); ++step) {
      TrainSync(client.get(), trained, 0, step, step + 1, &status);
      Values values;
      for (size_t i = 0; i < trained->variables.size(); ++i) {
        values[trained->variables[i].name] = trained->params[i];
      }
      of_version[step + 1] = std::move(values);
    }
  });
  uint64_t newest = 0;
  const Time until = SteadyNow() + kPatience;
  while (newest < 60 && SteadyNow() < until) {
    const auto change = follower->Next(kPatience);
    ASSERT_TRUE(change.ok()) << change.status();
    if (!*change) continue;
    seen.emplace_back((*change)->versions, follower->variables());
    newest = std::ranges::min((*change)->versions);
  }
  trainer.join();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_GT(seen.size(), 2u);
  for (const auto& [versions, values] : seen) {
    for (const auto& [name, elements] : values) {
      for (size_t i = 0; i < elements.size(); ++i) {
        const bool known = std::ranges::any_of(versions, [&](uint64_t version) {
          return of_version.at(version).at(name)[i] == elements[i];
        });
        ASSERT_TRUE(known) << name << "[" << i << "]";
      }
    }
  }
}

TEST_F(FollowVariablesTest, AFollowerContinuesAfterRestartsAndRestores) {
  Start("a", 0);
  Start("b", 1);
  const auto client = Trainer();
  Train(*client, 0, 4);
  for (const auto& server : servers_) ASSERT_TRUE(server->SaveCheckpoint().ok());
  const Values saved = Expected();
  const auto follower = Follow(endpoints_);
  Await(*follower);
  Train(*client, 4, 9);
  Await(*follower);
  servers_[1].reset();
  EXPECT_TRUE(follower->Next(std::chrono::milliseconds(50)).ok());
  Start("b", 1);
  Train(*client, 9, 12);
  Await(*follower);
  ASSERT_EQ(*client->Restore(), 4u);
  for (size_t i = 0; i < model_.variables.size(); ++i) {
    model_.params[i] = saved.at(model_.variables[i].name);
  }
  Await(*follower);
}

// The server has the same version before and after the restore, but other values.
TEST_F(FollowVariablesTest, ARestoreToTheSameVersionIsNoticed) {
  Start("a", 0);
  const auto client = Trainer();
  Train(*client, 0, 4);
  ASSERT_TRUE(servers_[0]->SaveCheckpoint().ok());
  const Values saved = Expected();
  Train(*client, 4, 6);
  const auto follower = Follow(endpoints_);
  Await(*follower);
  // A request for the next version is under way.
  EXPECT_TRUE(follower->Next(std::chrono::milliseconds(50)).ok());
  ASSERT_EQ(*client->Restore(), 4u);
  for (size_t i = 0; i < model_.variables.size(); ++i) {
    model_.params[i] = saved.at(model_.variables[i].name);
  }
  for (uint64_t step = 4; step < 6; ++step) {
    const auto gradients = model_.Gradients(/*trainer=*/1, step);
    ASSERT_TRUE(PushAndWait(*client, step, 0.01f, model_.View(gradients)).ok());
    ASSERT_TRUE(PullAndWait(*client, step + 1, model_.Tensors()).ok());
  }
  Await(*follower);
}

// After a drain, the other servers have all variables, and the drained server has ended.
TEST_F(FollowVariablesTest, AFollowerContinuesAfterADrain) {
  Start("a", 0);
  Start("b", 1);
  const auto client = Trainer();
  Train(*client, 0, 2);
  for (const std::vector<std::string>& variables :
       {std::vector<std::string>(), std::vector<std::string>{"fc_0.w", "fc_0.b", "fc_1.w"}}) {
    followers_.push_back(Follow(endpoints_, {.variables = variables}, std::chrono::seconds(2)));
    Await(*followers_.back());
  }
  const auto channel = *ps::GrpcPsChannel::Connect(endpoints_, {});
  ps::BucketMigrator mover(*channel, endpoints_, {});
  ASSERT_TRUE(mover.Leave(1).ok());
  TrainDuring(*client, 2, [&] {
    const auto before = mover.Where();
    if (!before.ok()) return before.status();
    return mover.Run(ps::PlanDrain(*before, 1), [](const ps::MoveProgress&) {});
  });
  channel->Close();
  servers_[1].reset();
  for (const auto& follower : followers_) {
    Await(*follower);
    // Later, the drained server does not count as one that does not reply.
    const Time until = SteadyNow() + std::chrono::seconds(5);
    while (SteadyNow() < until) {
      const auto change = follower->Next(std::chrono::milliseconds(100));
      ASSERT_TRUE(change.ok()) << change.status();
    }
    EXPECT_EQ(follower->variables(), Expected());
  }
}

// The follower learns the address of a server that joins the job from the others.
TEST_F(FollowVariablesTest, AServerThatJoinsLaterIsFollowed) {
  Start("a", 0);
  const auto client = Trainer();
  Train(*client, 0, 2);
  const std::vector<std::string> first = endpoints_;
  const auto follower = Follow(first);
  Await(*follower);
  Start("b", 1);
  const auto channel = *ps::GrpcPsChannel::Connect(first, {});
  ps::BucketMigrator mover(*channel, first, {});
  ASSERT_TRUE(mover.Add(endpoints_[1]).ok());
  TrainDuring(*client, 2, [&] {
    const auto before = mover.Where();
    if (!before.ok()) return before.status();
    const auto transfers = ps::PlanRebalance(*before);
    EXPECT_FALSE(transfers.empty());
    return mover.Run(transfers, [](const ps::MoveProgress&) {});
  });
  Await(*follower);
  const auto change = follower->Next(kPatience / 20);
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(follower->variables(), Expected());
  channel->Close();
}

TEST_F(FollowVariablesTest, AReplicaAnswersFollowers) {
  Start("a", 0);
  const auto client = Trainer();
  const auto replica = ReplicaOf(endpoints_[0], "r");
  Train(*client, 0, 2);
  const auto follower = Follow({ReplicaTest::Await(*replica, 2)});
  Await(*follower);
  Train(*client, 2, 6);
  Await(*follower);
}

TEST_F(FollowVariablesTest, MistakesAreNamed) {
  Start("a", 0);
  const auto client = Trainer();
  auto unknown = ps::VariableFollower::Connect(
      endpoints_, {.timeout = std::chrono::milliseconds(300)}, {.variables = {"fc_9.w"}});
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  const auto change = (*unknown)->Next(kPatience);
  EXPECT_EQ(change.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(change.status().message()),
              HasSubstr("no dense variable \"fc_9.w\", or lack a part of it [TD4034]"));
  const auto never = ps::VariableFollower::Connect(endpoints_, {}, {.every = 0});
  EXPECT_THAT(std::string(never.status().message()), HasSubstr("every 0 updates"));
  EXPECT_EQ(ps::VariableFollower::Connect({}, {}, {}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::pserver
