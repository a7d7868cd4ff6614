// Tests requests for rows that begin before a push has ended. The rows must contain the changes of
// this push.
#include "trainer/ps/row_prefetcher.h"

#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::trainer {
namespace {

constexpr int64_t kDim = 3;
const std::vector<int64_t> kIds = {1, 4, 250, 499};

class RowsAheadTest : public pserver::PserverTest {
 protected:
  void SetUp() override {
    StartServers(2);
    for (int t : {0, 1}) clients_[t] = *Client(t, 2);
    for (int t : {0, 1}) {
      const auto state = clients_[t]->Configure(
          {{"b", Shape{1}}}, ps::PsMode::kSync, {"sgd", {}},
          {{"emb", 500, kDim, ps::PsTable::InitKind::kUniform, -1.0f, 1.0f, 5, ""}});
      ASSERT_TRUE(state.ok()) << state.status();
    }
    for (int t : {0, 1}) ASSERT_TRUE(clients_[t]->InitOrFetch(Bias()).ok());
  }
  std::vector<ps::PsTensor> Bias() { return {{"b", &bias_, 1}}; }
  void Push(int trainer, uint64_t step) {
    const float one = 1;
    const std::vector<float> values(kIds.size() * kDim, static_cast<float>(trainer + 1));
    pserver::Answer<Status> answer;
    clients_[trainer]->Push(step, 0.5f, {{"b", &one, 1}}, answer.Callback(),
                            {{"emb", kIds, values.data()}});
    EXPECT_TRUE(answer.Get().ok());
  }
  static ps::PsRows Rows(const std::vector<int64_t>& ids, std::vector<float>* values) {
    values->assign(ids.size() * kDim, -7.0f);
    ps::PsRows rows{"emb", ids, {}};
    for (size_t i = 0; i < ids.size(); ++i) rows.to.push_back(values->data() + i * kDim);
    return rows;
  }
  std::vector<float> Pulled(uint64_t version) {
    std::vector<float> values;
    pserver::Answer<StatusOr<uint64_t>> answer;
    clients_[0]->PullRows({.version = version, .exactly = true}, {Rows(kIds, &values)},
                          answer.Callback());
    EXPECT_TRUE(answer.Get().ok());
    return values;
  }
  void Ask(RowPrefetcher& ahead, uint64_t version) {
    ahead.Ask(*clients_[0], version, {{"emb", kIds, {}}}, {kDim});
  }

  float bias_ = 0;
  std::unique_ptr<ps::PsClient> clients_[2];
};

TEST_F(RowsAheadTest, ComeOnceTheStepIsComplete) {
  RowPrefetcher ahead;
  std::vector<float> first = Pulled(0), values;
  for (uint64_t step = 0; step < 3; ++step) {
    Ask(ahead, step + 1);
    Push(0, step);
    pserver::Answer<Status> come;
    std::atomic<bool> ended = false;
    ASSERT_TRUE(ahead.Give(step + 1, {Rows(kIds, &values)}, [&](const Status& status) {
      ended = true;
      come.Callback()(status);
    }));
    EXPECT_FALSE(ended);  // no reply yet: the other trainer has not pushed
    Push(1, step);
    ASSERT_TRUE(come.Get().ok());
    EXPECT_EQ(values, Pulled(step + 1));
    for (float& v : first) v -= 0.5f * 3;
    for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(values[i], first[i], 1e-5f);
  }
}

TEST_F(RowsAheadTest, AreThereWhenTheStepBeginsLate) {
  RowPrefetcher ahead;
  Ask(ahead, 1);
  Push(0, 0);
  Push(1, 0);
  const std::vector<float> expected = Pulled(1);
  std::vector<float> values;
  // The rows of step 1 have arrived, or their request is in progress.
  pserver::Answer<Status> come;
  ASSERT_TRUE(ahead.Give(1, {Rows(kIds, &values)}, come.Callback()));
  ASSERT_TRUE(come.Get().ok());
  EXPECT_EQ(values, expected);
  // The rows of step 1 arrived before this call.
  pserver::Answer<Status> again;
  ASSERT_TRUE(ahead.Give(1, {Rows(kIds, &values)}, again.Callback()));
  EXPECT_EQ(values, expected);
  ASSERT_TRUE(again.Get().ok());
}

TEST_F(RowsAheadTest, OthersAreNotGiven) {
  RowPrefetcher ahead;
  std::vector<float> values;
  const auto never = [](const Status&) { ADD_FAILURE() << "called"; };
  EXPECT_FALSE(ahead.Give(1, {Rows(kIds, &values)}, never));
  Ask(ahead, 1);
  EXPECT_FALSE(ahead.Give(2, {Rows(kIds, &values)}, never));
  EXPECT_FALSE(ahead.Give(1, {Rows({1, 4, 250}, &values)}, never));
  EXPECT_FALSE(ahead.Give(1, {Rows({1, 4, 250, 498}, &values)}, never));
  EXPECT_FALSE(ahead.Give(1, {}, never));
  EXPECT_EQ(values, std::vector<float>(4 * kDim, -7.0f));
}

TEST_F(RowsAheadTest, SaysWhatBecameOfThePull) {
  RowPrefetcher ahead;
  std::vector<float> values;
  Ask(ahead, 1);
  pserver::Answer<Status> come;
  ASSERT_TRUE(ahead.Give(1, {Rows(kIds, &values)}, come.Callback()));
  clients_[0].reset();  // cancels the request
  EXPECT_FALSE(come.Get().ok());
  EXPECT_EQ(values, std::vector<float>(4 * kDim, -7.0f));
}

}  // namespace
}  // namespace tandem::trainer
