// enable_dc_asgd and dc_asgd_lambda: the server corrects a stale gradient with the parameters that
// the trainer pulled last.
#include "common/strategy/diagnostics.h"
#include "tests/knobs/knob_programs.h"
#include "tests/unit/pserver/pserver_fixture.h"
#include "trainer/job/job.h"

namespace tandem::trainer {
namespace {

using testing::HasSubstr;

// Two trainers share a parameter with one element, which is 10 at first. The optimizer is sgd with
// learning rate 1.
class DcAsgdTest : public pserver::PserverTest,
                   public testing::WithParamInterface<ps::PsTransport> {
 protected:
  void Connect(double strength, pserver::PserverOptions options = {}) {
    for (auto& client : clients_) client.reset();
    servers_.clear();
    endpoints_.clear();
    StartServers(1, options);
    for (int t : {0, 1}) {
      ps::PsOptions ps{.transport = GetParam()};
      ps.rules.delay_compensation = strength;
      clients_[t] = *Client(t, 2, ps);
      const Status status =
          clients_[t]->Configure({{"w", Shape{1}}}, ps::PsMode::kASync, {}).status();
      ASSERT_TRUE(status.ok()) << status;
    }
    for (int t : {0, 1}) {
      float first = 10;
      const ps::PsTensor w = {"w", &first, 1};
      ASSERT_TRUE(clients_[t]->InitOrFetch({&w, 1}).ok());
    }
  }
  void Push(int trainer, float gradient) {
    const float before = gradient;
    const Status status =
        pserver::PushAndWait(*clients_[trainer], step_++, 1.0f, {{"w", &gradient, 1}});
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(gradient, before);
  }
  float Pull(int trainer) {
    float w = 0;
    EXPECT_TRUE(pserver::PullAndWait(*clients_[trainer], 0, {{"w", &w, 1}}).ok());
    return w;
  }
  uint64_t step_ = 0;
  std::unique_ptr<ps::PsClient> clients_[2];
};

TEST_P(DcAsgdTest, WhatIsLateIsCorrected) {
  Connect(0.5);
  Push(1, 1);  // trainer 1 pulled w = 10, no correction: w becomes 10 - 1 = 9
  Push(0, 2);  // trainer 0 pulled 10: the gradient becomes 2 + 0.5 * 2 * 2 * (9 - 10) = 0
  EXPECT_EQ(Pull(1), 9);
  Push(1, 1);   // no correction, trainer 1 pulled 9: w becomes 8
  Push(0, -1);  // trainer 0 pulled 10: the gradient becomes -1 + 0.5 * (8 - 10) = -2
  EXPECT_EQ(Pull(0), 10);
  Connect(0);
  Push(1, 1);
  Push(0, 2);
  EXPECT_EQ(Pull(0), 7);
}

// The log does not contain the pulled parameters. It contains the corrected gradients that the
// server applied.
TEST_P(DcAsgdTest, ALogBringsBackWhatWasApplied) {
  pserver::PserverOptions options;
  options.data_dir = dir_;
  options.durability = pserver::Durability::kLogged;
  Connect(0.5, options);
  Push(1, 1);
  Push(0, 2);
  Connect(0.5, options);
  EXPECT_EQ(Pull(0), 9);
  // The server corrects the gradient relative to the parameters that trainer 1 pulled after the
  // restart.
  Push(1, 3);
  EXPECT_EQ(Pull(0), 6);
}

INSTANTIATE_TEST_SUITE_P(Roads, DcAsgdTest,
                         testing::Values(ps::PsTransport::kGrpc, ps::PsTransport::kShm));

TEST(DcAsgdJob, TheJobSaysHowMuch) {
  EXPECT_EQ(PserverModeOptions({{"a_sync", "true"}}).delay_compensation, 0);
  const Overrides on = {{"a_sync", "true"}, {"enable_dc_asgd", "true"}};
  EXPECT_EQ(PserverModeOptions(on).delay_compensation, 0.04);
  Overrides stronger = on;
  stronger.emplace_back("dc_asgd_lambda", "2");
  EXPECT_EQ(PserverModeOptions(stronger).delay_compensation, 2);
}

TEST(DcAsgdJob, NeedsGradientsThatComeLate) {
  for (const Overrides& more :
       {Overrides{}, Overrides{{"a_sync", "true"}, {"a_sync_configs.k_steps", "4"}}}) {
    JobSources sources;
    sources.overrides = {{"mode", "pserver"},
                         {"model.zoo", "mlp"},
                         {"data.dir", "x"},
                         {"batch_size", "8"},
                         {"enable_dc_asgd", "true"}};
    sources.overrides.insert(sources.overrides.end(), more.begin(), more.end());
    EXPECT_THAT(std::string(LoadJob(sources, 2).status().message()), HasSubstr("enable_dc_asgd"));
  }
}

// Eight trainers take turns. Each trainer pushes the gradient of w^2 / 2 for parameters that are
// seven updates old. With this learning rate w diverges without the correction; with the correction
// w stays bounded.
TEST(DcAsgdEffect, HoldsWhereLateGradientsDiverge) {
  const auto farthest = [](double strength) {
    constexpr int kTrainers = 8;
    Metrics metrics;
    auto server = *pserver::Pserver::Start({}, metrics);
    std::vector<std::unique_ptr<ps::PsClient>> clients;
    std::vector<float> pulled(kTrainers, 1.0f);
    for (int t = 0; t < kTrainers; ++t) {
      ps::PsOptions options{.trainer = t, .trainers = kTrainers};
      options.rules.delay_compensation = strength;
      clients.push_back(*ps::PsClient::Connect({ToString(server->endpoint())}, options));
      CHECK(clients[t]->Configure({{"w", Shape{1}}}, ps::PsMode::kASync, {}).ok());
    }
    for (int t = 0; t < kTrainers; ++t) {
      const ps::PsTensor w = {"w", &pulled[t], 1};
      CHECK(clients[t]->InitOrFetch({&w, 1}).ok());
    }
    float last = 0;
    for (uint64_t step = 0; step < 40; ++step) {
      for (int t = 0; t < kTrainers; ++t) {
        const float gradient = pulled[t];
        CHECK(pserver::PushAndWait(*clients[t], step, 0.25f, {{"w", &gradient, 1}}).ok());
        CHECK(pserver::PullAndWait(*clients[t], 0, {{"w", &pulled[t], 1}}).ok());
      }
      last = 0;
      for (const float w : pulled) last = std::max(last, std::abs(w));
    }
    return last;
  };
  EXPECT_GT(farthest(0), 100);
  EXPECT_LT(farthest(1), 1);
}

}  // namespace
}  // namespace tandem::trainer
