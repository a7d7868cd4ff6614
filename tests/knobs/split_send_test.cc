// runtime_split_send_recv: a trainer sends one message per slice, or one message with all slices to
// each server. The bits of sync mode are the same.
#include "common/base/mutex.h"
#include "tests/knobs/knob_programs.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::trainer {
namespace {

class SplitSendTest : public pserver::PserverTest,
                      public testing::WithParamInterface<ps::PsTransport> {
 protected:
  struct Run {
    std::vector<std::vector<float>> params;
    std::map<std::string, int> calls;  // number of calls of trainer 0, by method
    int bare_answers = 0;              // number of replies to pushes without parameters in them
    double pushes = 0;                 // number of pushes that the servers accepted
    size_t slices = 0;
  };
  // Trains the model with two trainers on two servers, in sync mode.
  Run Train(bool split, int steps) {
    servers_.clear();
    endpoints_.clear();
    StartServers(2);
    Counter& taken = metrics_.GetCounter("tandem_pserver_pushes_total", "");
    const double before = taken.Value();
    Run run;
    Mutex mu;
    std::unique_ptr<ps::PsClient> clients[2];
    pserver::Model models[2];
    for (int t : {0, 1}) {
      ps::PsOptions options{.transport = GetParam()};
      options.split_messages = split;
      if (t == 0) {
        options.callbacks.on_call = [&](const ps::PsCall& call) {
          const MutexLock lock(mu);
          ++run.calls[call.method()];
          const bool push = call.call == rpc::PserverCall::kPush;
          // A reply with parameters has at least the 11 floats of the smallest slice.
          run.bare_answers += push && call.received < 11 * sizeof(float);
        };
      }
      clients[t] = *Client(t, 2, options);
      EXPECT_TRUE(
          clients[t]->Configure(models[t].variables, ps::PsMode::kSync, {"momentum", {}}).ok());
    }
    for (int t : {0, 1}) EXPECT_TRUE(clients[t]->InitOrFetch(models[t].Tensors()).ok());
    const int pulls_before = run.calls["Pull"];
    for (uint64_t step = 0; step < static_cast<uint64_t>(steps); ++step) {
      pserver::Answer<StatusOr<uint64_t>> done[2];
      const auto a = models[0].Gradients(0, step), b = models[1].Gradients(1, step);
      for (int t : {0, 1}) {
        clients[t]->PushPull(step, 0.05f, models[t].View(t == 0 ? a : b), {.version = step + 1},
                             models[t].Tensors(), done[t].Callback());
      }
      for (auto& one : done) {
        const StatusOr<uint64_t> version = one.Get();
        EXPECT_TRUE(version.ok() && *version == step + 1) << version.status();
      }
    }
    EXPECT_EQ(models[0].params, models[1].params);
    run.slices = clients[0]->blocks().size();
    clients[0].reset();  // trainer 0 sends no more calls
    clients[1].reset();
    EXPECT_EQ(run.calls["Pull"], pulls_before) << "parameters come with the answers";
    run.params = models[0].params;
    run.pushes = taken.Value() - before;
    return run;
  }
};

TEST_P(SplitSendTest, EachSliceIsAMessageAndTheBitsAreTheSame) {
  constexpr int kSteps = 5;
  Run whole = Train(false, kSteps), split = Train(true, kSteps);
  ASSERT_GT(split.slices, 3u);
  EXPECT_EQ(whole.calls["Push"], 2 * kSteps);
  EXPECT_EQ(split.calls["Push"], static_cast<int>(split.slices) * kSteps);
  EXPECT_EQ(whole.pushes, 2 * whole.calls["Push"]);
  EXPECT_EQ(split.pushes, 2 * split.calls["Push"]);
  EXPECT_EQ(split.bare_answers, 0) << "each message brings the parameters of its slice";
  EXPECT_EQ(split.params, whole.params);
}

INSTANTIATE_TEST_SUITE_P(Roads, SplitSendTest,
                         testing::Values(ps::PsTransport::kGrpc, ps::PsTransport::kShm));

TEST(SplitSendJob, TheJobSays) {
  EXPECT_FALSE(PserverModeOptions({}).split_messages);
  EXPECT_TRUE(PserverModeOptions({{"runtime_split_send_recv", "true"}}).split_messages);
}

}  // namespace
}  // namespace tandem::trainer
