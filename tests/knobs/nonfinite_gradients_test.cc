// nonfinite_gradients: how a server handles a push that holds NaN or infinity, in slices and in
// rows, over each transport and in both update modes.
#include <cmath>
#include <limits>

#include "tests/knobs/knob_programs.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::trainer {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

// Two trainers with a variable of four elements and a table with rows of two elements. All values
// are 0 at first; the optimizer is sgd with learning rate 1.
class NonfiniteTest : public pserver::PserverTest,
                      public testing::WithParamInterface<
                          std::tuple<ps::PsMode, ps::PsTransport, pserver::Durability>> {
 protected:
  bool sync() const { return std::get<0>(GetParam()) == ps::PsMode::kSync; }

  void Serve(ps::PsNonfinite policy) {
    clients_[0].reset();
    clients_[1].reset();
    servers_.clear();
    endpoints_.clear();
    pserver::PserverOptions options;
    options.durability = std::get<2>(GetParam());
    options.data_dir = dir_;
    StartServers(1, options);
    const ps::PsTable table{.variable = "emb", .height = 100, .dim = 2};
    for (int t : {0, 1}) {
      ps::PsOptions ps{.transport = std::get<1>(GetParam())};
      ps.rules.nonfinite = policy;
      clients_[t] = *Client(t, 2, ps);
      const auto state =
          clients_[t]->Configure({{"w", Shape{4}}}, std::get<0>(GetParam()), {}, {table});
      ASSERT_TRUE(state.ok()) << state.status();
    }
    for (int t : {0, 1}) {
      std::vector<float> zeros(4);
      const ps::PsTensor w = {"w", zeros.data(), 4};
      ASSERT_TRUE(clients_[t]->InitOrFetch({&w, 1}).ok());
    }
  }
  // Pushes a gradient of the variable w and of rows of the table.
  Status Push(int trainer, uint64_t step, std::vector<float> w, std::vector<int64_t> ids,
              std::vector<float> rows) {
    pserver::Answer<Status> answer;
    clients_[trainer]->Push(step, 1.0f, {{"w", w.data(), 4}}, answer.Callback(),
                            {{"emb", ids, rows.data()}});
    return answer.Get();
  }
  // Returns the current values of w, followed by the values of rows 1, 2 and 3.
  std::vector<float> Now() {
    std::vector<float> all(10, kNaN);
    const ps::PsTensor w = {"w", all.data(), 4};
    EXPECT_TRUE(pserver::PullAndWait(*clients_[0], 0, {w}).ok());
    pserver::Answer<StatusOr<uint64_t>> answer;
    clients_[0]->PullRows({}, {{"emb", {1, 2, 3}, {&all[4], &all[6], &all[8]}}}, answer.Callback());
    EXPECT_TRUE(answer.Get().ok());
    return all;
  }
  uint64_t Version() { return servers_[0]->Info().version; }
  double Pushes(const char* outcome) {
    return metrics_.GetCounter("tandem_pserver_nonfinite_pushes_total", "", {{"outcome", outcome}})
        .Value();
  }

  std::unique_ptr<ps::PsClient> clients_[2];
};

TEST_P(NonfiniteTest, RejectNamesWhatItFoundAndChangesNothing) {
  Serve(ps::PsNonfinite::kReject);
  const Status dense = Push(0, 0, {1, 1, kInfinite, 1}, {1, 2}, {1, 1, 1, 1});
  EXPECT_EQ(dense.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(dense.message()),
              AllOf(HasSubstr("trainer 0 step 1: gradient of w, element 2 is infinite"),
                    HasSubstr("the server rejected the push [TD4013]")));
  const Status rows = Push(0, 0, {1, 1, 1, 1}, {1, 3}, {1, 1, 1, kNaN});
  EXPECT_THAT(std::string(rows.message()), HasSubstr("gradient of emb, row 3, element 1 is NaN"));
  EXPECT_EQ(Pushes("rejected"), 2);
  EXPECT_EQ(Version(), 0u);
  EXPECT_THAT(Now(), Each(0.0f));
  // The rejected pushes did not complete the step: both trainers can still push gradients for the
  // step.
  for (int t : {0, 1}) ASSERT_TRUE(Push(t, 0, {1, 1, 1, 1}, {1, 2}, {1, 1, 1, 1}).ok());
  EXPECT_EQ(Now()[0], -2);
}

TEST_P(NonfiniteTest, SkipTakesThePushWithoutEffect) {
  Serve(ps::PsNonfinite::kSkip);
  ASSERT_TRUE(Push(0, 0, {1, 1, kNaN, 1}, {1, 2}, {1, 1, 1, 1}).ok());
  EXPECT_EQ(Version(), sync() ? 0u : 1u);
  EXPECT_THAT(Now(), Each(0.0f));
  EXPECT_EQ(Pushes("skipped"), 1);
  EXPECT_EQ(servers_[0]->Info().trainers[0].skipped, 1u);
  // The valid push of the other trainer completes the step. Only the valid push changes w and the
  // rows.
  ASSERT_TRUE(Push(1, 0, {1, 2, 3, 4}, {2, 3}, {1, 1, 1, 1}).ok());
  const std::vector<float> expected = {-1, -2, -3, -4, 0, 0, -1, -1, -1, -1};
  EXPECT_EQ(Now(), expected);
  EXPECT_EQ(servers_[0]->Info().tables[0].rows, 2u);
  ASSERT_TRUE(Push(0, 1, {1, 1, 1, 1}, {1}, {1, kInfinite}).ok());
  ASSERT_TRUE(Push(1, 1, {1, 1, 1, 1}, {1}, {1, 1}).ok());
  EXPECT_EQ(servers_[0]->Info().trainers[0].pushes, 2u);
  const std::vector<float> after = Now();
  EXPECT_EQ(after, (std::vector<float>{-2, -3, -4, -5, -1, -1, -1, -1, -1, -1}));
  if (std::get<2>(GetParam()) != pserver::Durability::kLogged) return;
  // The log restores the same state. The policy may differ after the restart.
  const uint64_t version = Version();
  Serve(ps::PsNonfinite::kReject);
  EXPECT_EQ(Version(), version);
  EXPECT_EQ(Now(), after);
}

TEST_P(NonfiniteTest, ApplyDoesNotLook) {
  Serve(ps::PsNonfinite::kApply);
  for (int t : {0, 1}) {
    ASSERT_TRUE(Push(t, 0, {1, kNaN, 1, 1}, {1, 2}, {1, kInfinite, 1, 1}).ok());
  }
  const std::vector<float> now = Now();
  EXPECT_EQ(now[0], -2);
  EXPECT_TRUE(std::isnan(now[1]));
  EXPECT_TRUE(std::isinf(now[5]));
  EXPECT_EQ(Pushes("rejected") + Pushes("skipped"), 0);
  if (std::get<2>(GetParam()) != pserver::Durability::kLogged) return;
  Serve(ps::PsNonfinite::kApply);
  EXPECT_TRUE(std::isnan(Now()[1]));
  EXPECT_TRUE(std::isinf(Now()[5]));
}

// Initial values must be finite under any policy.
TEST_P(NonfiniteTest, FirstValuesAreFinite) {
  StartServers(1);
  auto client = *Client(0, 1, {.transport = std::get<1>(GetParam())});
  const ps::PsTable table{.variable = "emb", .height = 100, .dim = 2};
  ASSERT_TRUE(client->Configure({{"w", Shape{4}}}, std::get<0>(GetParam()), {}, {table}).ok());
  std::vector<float> w(4);
  const ps::PsTensor tensor = {"w", w.data(), 4};
  const ps::PsTableRows rows{.variable = "emb", .ids = {1}, .content = {1, kNaN}};
  EXPECT_THAT(std::string(client->InitOrFetch({&tensor, 1}, 0, {}, {&rows, 1}).status().message()),
              HasSubstr("table emb: the row value at index 1 is not finite"));
  w[2] = kInfinite;
  EXPECT_THAT(std::string(client->InitOrFetch({&tensor, 1}).status().message()),
              HasSubstr("initial values of w: element 2 is not finite"));
}

INSTANTIATE_TEST_SUITE_P(
    Roads, NonfiniteTest,
    testing::Combine(testing::Values(ps::PsMode::kSync, ps::PsMode::kASync),
                     testing::Values(ps::PsTransport::kGrpc, ps::PsTransport::kShm),
                     testing::Values(pserver::Durability::kNone, pserver::Durability::kLogged)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param) == ps::PsMode::kSync ? "sync" : "a_sync") +
             (std::get<1>(info.param) == ps::PsTransport::kGrpc ? "_grpc" : "_shm") +
             (std::get<2>(info.param) == pserver::Durability::kLogged ? "_logged" : "");
    });

TEST(NonfiniteJob, TheJobSaysWhich) {
  EXPECT_EQ(PserverModeOptions({}).nonfinite, ps::PsNonfinite::kReject);
  EXPECT_EQ(PserverModeOptions({{"nonfinite_gradients", "Skip"}}).nonfinite,
            ps::PsNonfinite::kSkip);
  EXPECT_EQ(PserverModeOptions({{"nonfinite_gradients", "Apply"}}).nonfinite,
            ps::PsNonfinite::kApply);
}

// An overflow of amp is not rejected: the trainer sends zeros and continues with a smaller loss
// scale.
using NonfiniteAmpTest = JobTest;
TEST_F(NonfiniteAmpTest, AmpOverflowsAreNotRejected) {
  const JobRun run =
      RunJob("amp", {"--mode=pserver", "--servers=1", "--workers=2"},
             {"--steps_max=20", "--amp=true", "--amp_dtype=f16", "--init_loss_scaling=1e12",
              "--decr_every_n_nan_or_inf=1", "--decr_ratio=0.01"});
  EXPECT_EQ(run.result.steps, 20);
  EXPECT_LT(run.result.counts.at("loss_scaling"), 1e12) << "nothing overflowed";
}

}  // namespace
}  // namespace tandem::trainer
