// Tests a trainer that restarts. The servers choose its incarnation number.
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

class IncarnationTest : public PserverTest {
 protected:
  std::unique_ptr<ps::PsClient> Join(uint64_t incarnation) {
    auto client = *Client(0, 1, {.incarnation = incarnation});
    const auto state = client->Configure(model_.variables, ps::PsMode::kSync, {});
    EXPECT_TRUE(state.ok()) << state.status();
    const auto version = client->InitOrFetch(model_.Tensors());
    EXPECT_TRUE(version.ok()) << version.status();
    return client;
  }
  Status Push(ps::PsClient& client, uint64_t step) {
    const auto gradients = model_.Gradients(0, step);
    return PushAndWait(client, step, 0.1f, model_.View(gradients));
  }

  Model model_;
};

// The older incarnation has a number as if the clock of its host were thousands of years ahead.
TEST_F(IncarnationTest, ASuccessorIsAboveWhatAnyClockSaid) {
  StartServers(2);
  const auto older = Join(uint64_t{1} << 62);
  ASSERT_TRUE(Push(*older, 0).ok());
  const auto newer = Join(0);
  EXPECT_TRUE(Push(*newer, 1).ok());
  EXPECT_THAT(ToString(Push(*older, 2)), HasSubstr("was restarted as incarnation"));
  EXPECT_TRUE(Push(*Join(0), 2).ok());
}

TEST_F(IncarnationTest, CheckpointsKeepTheNumber) {
  const PserverOptions options{.data_dir = dir_, .durability = Durability::kLogged};
  StartServers(1, options);
  ASSERT_TRUE(Push(*Join(uint64_t{1} << 62), 0).ok());
  servers_.clear();
  endpoints_.clear();
  StartServers(1, options);
  EXPECT_TRUE(Push(*Join(0), 1).ok());
}

// One server knows a newer incarnation than the other server.
TEST_F(IncarnationTest, ItIsAboveWhatAllServersKnow) {
  StartServers(2);
  ASSERT_TRUE(Push(*Join(5), 0).ok());
  const std::vector<std::string> both = endpoints_;
  {
    ps::PsOptions options{.incarnation = uint64_t{1} << 50};
    const auto client = *ps::PsClient::Connect(both, options);
    EXPECT_TRUE(client->Barrier("x").ok()) << "a call to server 0 alone";
  }
  EXPECT_TRUE(Push(*Join(0), 1).ok());
}

TEST_F(IncarnationTest, WhereNoNumberIsLeftThatIsSaid) {
  StartServers(1);
  ASSERT_TRUE(Push(*Join(UINT64_MAX), 0).ok());
  const auto next = *Client(0, 1);
  const auto state = next->Configure(model_.variables, ps::PsMode::kSync, {});
  EXPECT_THAT(ToString(state.status()), HasSubstr("[TD4024]"));
}

}  // namespace
}  // namespace tandem::pserver
