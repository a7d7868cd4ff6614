// a_sync (and k_steps): in sync mode the parameters change once per step, after the gradients of
// all trainers have arrived. In a_sync mode every push changes the parameters, and no trainer
// waits.
#include <future>

#include "gtest/gtest.h"
#include "pserver/client/client.h"
#include "pserver/pserver.h"

namespace tandem::trainer {
namespace {

class PserverModesTest : public testing::TestWithParam<ps::PsMode> {
 protected:
  static constexpr int kTrainers = 2;

  void SetUp() override {
    auto server = pserver::Pserver::Start({}, metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    for (int t = 0; t < kTrainers; ++t) {
      ps::PsOptions options;
      options.trainer = t;
      options.trainers = kTrainers;
      auto client = ps::PsClient::Connect({ToString(server_->endpoint())}, options);
      ASSERT_TRUE(client.ok()) << client.status();
      clients_.push_back(*std::move(client));
      ASSERT_TRUE(clients_[t]->Configure({{"w", {1}}}, GetParam(), {}).ok());
    }
    for (auto& client : clients_) {
      const ps::PsTensor tensor = {"w", &weight_, 1};
      ASSERT_TRUE(client->InitOrFetch({&tensor, 1}).ok());
    }
  }

  void Push(int trainer, uint64_t step, float gradient) {
    std::promise<Status> done;
    clients_[trainer]->Push(step, 1.0f, {{"w", &gradient, 1}},
                            [&done](Status status) { done.set_value(std::move(status)); });
    const Status status = done.get_future().get();
    ASSERT_TRUE(status.ok()) << status;
  }
  // Returns the current version and weight without waiting for a trainer.
  std::pair<uint64_t, float> Now() {
    std::promise<uint64_t> done;
    float w = 0;
    clients_[0]->Pull(0, {{"w", &w, 1}},
                      [&done](const StatusOr<uint64_t>& v) { done.set_value(v.value_or(~0ull)); });
    const uint64_t version = done.get_future().get();
    return {version, w};
  }

  Metrics metrics_;
  float weight_ = 10.0f;
  std::unique_ptr<pserver::Pserver> server_;
  std::vector<std::unique_ptr<ps::PsClient>> clients_;
};

TEST_P(PserverModesTest, WhenAPushChangesTheParameters) {
  const bool sync = GetParam() == ps::PsMode::kSync;
  Push(0, 0, 1.0f);
  EXPECT_EQ(Now(), (std::pair<uint64_t, float>(sync ? 0 : 1, sync ? 10.0f : 9.0f)));
  Push(1, 0, 2.0f);
  EXPECT_EQ(Now(), (std::pair<uint64_t, float>(sync ? 1 : 2, 7.0f)));
}

INSTANTIATE_TEST_SUITE_P(Modes, PserverModesTest,
                         testing::Values(ps::PsMode::kSync, ps::PsMode::kASync));

}  // namespace
}  // namespace tandem::trainer
