// Tests tables through servers and clients: bits, faults, checkpoints, errors.
#include <set>

#include "common/base/rng.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

constexpr int64_t kHeight = 500, kDim = 3;
const ps::PsVariable kBias = {"b", Shape{4}};

ps::PsTable TableOf() {
  return {"emb", kHeight, kDim, ps::PsTable::InitKind::kUniform, -1.0f, 1.0f, 5};
}

// The gradient of `trainer` at `step`: gradients of some rows and of the dense variable.
struct Sparse {
  std::vector<int64_t> ids;
  std::vector<float> values;
  std::vector<float> bias;
  Sparse(int trainer, uint64_t step) {
    const uint64_t key = StreamKey(step * 16 + static_cast<uint64_t>(trainer), "sparse");
    for (int64_t id = 0; id < kHeight; ++id) {
      if (Philox(key, static_cast<uint64_t>(id))[0] % 20 != 0) continue;
      ids.push_back(id);
      for (int c = 0; c < kDim; ++c)
        values.push_back(NormalAt(key, static_cast<uint64_t>(id * 7 + c)));
    }
    for (uint64_t i = 0; i < 4; ++i) bias.push_back(NormalAt(key, 10000 + i));
  }
};

class SparseTest : public PserverTest {
 protected:
  static constexpr const char* kAdagrad = "adagrad";

  void Join(ps::PsClient& client, const std::string& optimizer = kAdagrad,
            ps::PsMode mode = ps::PsMode::kSync) {
    const auto state = client.Configure({kBias}, mode, {optimizer, {}}, {TableOf()});
    ASSERT_TRUE(state.ok()) << state.status();
  }
  static std::vector<ps::PsTensor> Bias(std::vector<float>& bias) {
    return {{"b", bias.data(), static_cast<int64_t>(bias.size())}};
  }
  static Status Step(ps::PsClient& client, int trainer, uint64_t step) {
    const Sparse g(trainer, step);
    Answer<Status> answer;
    client.Push(step, 0.1f, {{"b", g.bias.data(), 4}}, answer.Callback(),
                {{"emb", g.ids, g.values.data()}});
    return answer.Get();
  }
  // Returns the values of all rows, including rows that no server stores.
  static StatusOr<std::vector<float>> Rows(ps::PsClient& client, ps::PullCondition when) {
    std::vector<float> all(kHeight * kDim);
    ps::PsRows rows{"emb", {}, {}};
    for (int64_t id = 0; id < kHeight; ++id) {
      rows.ids.push_back(id);
      rows.to.push_back(all.data() + id * kDim);
    }
    Answer<StatusOr<uint64_t>> answer;
    client.PullRows(when, {rows}, answer.Callback());
    TD_RETURN_IF_ERROR(answer.Get().status());
    return all;
  }
  // Runs steps [from, to) of both trainers. Returns the rows after the last step.
  std::vector<float> Train(std::unique_ptr<ps::PsClient>* clients, uint64_t from, uint64_t to) {
    for (uint64_t step = from; step < to; ++step) {
      for (int t : {0, 1}) {
        const Status status = Step(*clients[t], t, step);
        EXPECT_TRUE(status.ok()) << status;
      }
    }
    const auto rows = Rows(*clients[0], {.version = to});
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? *rows : std::vector<float>();
  }
  void Connect(std::unique_ptr<ps::PsClient>* clients, uint64_t version = 0,
               const std::string& optimizer = kAdagrad) {
    for (int t : {0, 1}) {
      clients[t] = *Client(t, 2);
      Join(*clients[t], optimizer);
    }
    for (int t : {0, 1}) {
      std::vector<float> bias(4, 1.0f);
      const auto got = clients[t]->InitOrFetch(Bias(bias));
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(*got, version);
    }
  }
  void Stop(std::unique_ptr<ps::PsClient>* clients) {
    for (int t : {0, 1}) clients[t].reset();
    servers_.clear();
    endpoints_.clear();
  }
};

TEST_F(SparseTest, TheSameBitsOnOneTwoAndThreeServers) {
  std::vector<float> first;
  for (const int servers : {1, 2, 3}) {
    StartServers(servers);
    std::unique_ptr<ps::PsClient> clients[2];
    Connect(clients);
    const std::vector<float> rows = Train(clients, 0, 6);
    if (first.empty()) first = rows;
    EXPECT_EQ(rows, first) << servers;
    uint64_t held = 0;
    const auto info = clients[0]->ServerInfo();
    for (const ps::PsServerInfo& one : *info) {
      EXPECT_GT(one.rows, 0u);
      held += one.rows;
    }
    std::set<int64_t> touched;
    for (uint64_t step = 0; step < 6; ++step) {
      for (int t : {0, 1}) {
        for (const int64_t id : Sparse(t, step).ids) touched.insert(id);
      }
    }
    EXPECT_EQ(held, touched.size());
    EXPECT_LT(held, static_cast<uint64_t>(kHeight));
    Stop(clients);
  }
}

TEST_F(SparseTest, ACheckpointAndTheLogBringTheRowsBack) {
  // A memory limit of 0 means no limit, so all rows are in memory. A limit of 3600 bytes keeps
  // about 45 rows in memory.
  for (const uint64_t memory : {0, 3'600}) {
    const std::string optimizer = memory == 0 ? "adam" : kAdagrad;
    StartServers(2);
    std::unique_ptr<ps::PsClient> clients[2];
    Connect(clients, 0, optimizer);
    const std::vector<float> expected = Train(clients, 0, 9);
    Stop(clients);
    for (const Durability durability : {Durability::kNone, Durability::kLogged}) {
      PserverOptions options;
      options.data_dir = dir_ + (durability == Durability::kLogged ? "/logged" : "/checkpoint") +
                         std::to_string(memory);
      options.durability = durability;
      options.log_bytes_max = 8'000;
      options.table_memory_bytes = memory;
      options.cold_dir = dir_ + "/cold";
      std::vector<float> rows;
      for (uint64_t begin = 0; begin < 9; begin += 3) {
        StartServers(2, options);
        EXPECT_EQ(servers_[0]->restored_version(), begin);
        Connect(clients, begin, optimizer);
        rows = Train(clients, begin, begin + 3);
        EXPECT_EQ(servers_[0]->Info().tables[0].cold_rows != 0, memory != 0);
        if (durability == Durability::kNone) {
          ASSERT_TRUE(clients[0]->Save().ok());
        }
        Stop(clients);  // ends the servers, which save nothing
      }
      EXPECT_EQ(rows, expected);
    }
  }
}

TEST_F(SparseTest, RowsOfATrainersCheckpointGoToAnyNumberOfServers) {
  StartServers(1);
  std::unique_ptr<ps::PsClient> clients[2];
  Connect(clients, 0, "adam");
  Train(clients, 0, 4);
  const auto table = clients[0]->PullTable("emb", true, 4);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->slots, testing::ElementsAre("emb@moment1", "emb@moment2"));
  std::vector<ps::PsSlot> scalars;
  const auto slots = clients[0]->PullState();
  ASSERT_TRUE(slots.ok()) << slots.status();
  for (const ps::PsSlot& slot : *slots) {
    if (slot.variable == "emb" || slot.variable == "b") scalars.push_back(slot);
  }
  std::vector<float> bias(4);
  ASSERT_TRUE(PullAndWait(*clients[0], 4, Bias(bias)).ok());
  const std::vector<float> expected = Train(clients, 4, 7);
  Stop(clients);

  StartServers(3);
  for (int t : {0, 1}) {
    clients[t] = *Client(t, 2);
    Join(*clients[t], "adam");
  }
  const ps::PsTableRows rows[] = {*table};
  const auto first = clients[0]->InitOrFetch(Bias(bias), 4, scalars, rows);
  ASSERT_TRUE(first.ok()) << first.status();
  std::vector<float> other(4);
  ASSERT_EQ(*clients[1]->InitOrFetch(Bias(other)), 4u);
  EXPECT_EQ(other, bias);
  EXPECT_EQ(Train(clients, 4, 7), expected);
}

// Trainer 1 is killed in a step that server 1 has completed and server 0 has not. The replacement
// gets the rows of the previous version from both servers.
TEST_F(SparseTest, ATrainerIsReplacedBetweenTwoServers) {
  for (const std::string optimizer : {"adagrad", "adam"}) {
    StartServers(2);
    std::unique_ptr<ps::PsClient> clients[2];
    Connect(clients, 0, optimizer);
    const std::vector<float> before = Train(clients, 0, 3);
    const std::vector<float> expected = Train(clients, 3, 5);
    Stop(clients);

    StartServers(2);
    Connect(clients, 0, optimizer);
    Train(clients, 0, 3);
    ASSERT_TRUE(Step(*clients[0], 0, 3).ok());
    // Sends only the part of trainer 1's step that belongs to server 1.
    ps::PsOptions only;
    only.trainer = 1;
    only.trainers = 2;
    const Sparse g(1, 3);
    Sparse half = g;
    half.ids.clear();
    half.values.clear();
    for (size_t i = 0; i < g.ids.size(); ++i) {
      if (static_cast<uint64_t>(g.ids[i]) * 0x9e3779b97f4a7c15 >> 63 == 0) continue;
      half.ids.push_back(g.ids[i]);
      half.values.insert(half.values.end(), g.values.begin() + static_cast<int64_t>(i) * kDim,
                         g.values.begin() + static_cast<int64_t>(i + 1) * kDim);
    }
    Answer<Status> pushed;
    clients[1]->Push(3, 0.1f, {}, pushed.Callback(), {{"emb", half.ids, half.values.data()}});
    ASSERT_TRUE(pushed.Get().ok());
    EXPECT_EQ((*clients[0]->ServerInfo())[0].version, 3u);
    EXPECT_EQ((*clients[0]->ServerInfo())[1].version, 4u);

    clients[1] = *Client(1, 2);
    Join(*clients[1], optimizer);
    std::vector<float> bias(4);
    ASSERT_EQ(*clients[1]->InitOrFetch(Bias(bias)), 3u);
    EXPECT_EQ(*Rows(*clients[1], {.version = 3, .exactly = true}), before);
    ASSERT_TRUE(Step(*clients[1], 1, 3).ok());
    EXPECT_EQ(Train(clients, 4, 5), expected);
    Stop(clients);
  }
}

TEST_F(SparseTest, AsyncAppliesEveryPush) {
  StartServers(2);
  auto client = *Client(0, 1);
  Join(*client, "sgd", ps::PsMode::kASync);
  std::vector<float> bias(4, 1.0f);
  ASSERT_TRUE(client->InitOrFetch(Bias(bias)).ok());
  const std::vector<float> before = *Rows(*client, {});
  const std::vector<int64_t> ids = {2, 3, 499};
  const std::vector<float> ones(9, 1.0f);
  for (uint64_t i = 0; i < 3; ++i) {
    Answer<Status> answer;
    client->Push(i, 1.0f, {}, answer.Callback(), {{"emb", ids, ones.data()}});
    ASSERT_TRUE(answer.Get().ok());
  }
  const std::vector<float> after = *Rows(*client, {});
  for (int64_t e = 0; e < kHeight * kDim; ++e) {
    const int64_t row = e / kDim;
    const bool pushed = row == 2 || row == 3 || row == 499;
    const float expected = pushed ? ((before[e] - 1.0f) - 1.0f) - 1.0f : before[e];
    ASSERT_EQ(after[e], expected) << e;
  }
}

TEST_F(SparseTest, ErrorsNameTableRowAndStep) {
  StartServers(1);
  auto client = *Client(0, 1);
  Join(*client);
  std::vector<float> bias(4, 1.0f);
  ASSERT_TRUE(client->InitOrFetch(Bias(bias)).ok());
  const auto push = [&](std::string table, std::vector<int64_t> ids, std::vector<float> values) {
    Answer<Status> answer;
    client->Push(0, 0.1f, {}, answer.Callback(), {{std::move(table), ids, values.data()}});
    return std::string(answer.Get().message());
  };
  EXPECT_THAT(push("embb", {1}, {1, 1, 1}), HasSubstr("did you mean \"emb\""));
  EXPECT_THAT(push("emb", {500}, {1, 1, 1}), HasSubstr("step 1: row 500 of table emb"));
  EXPECT_THAT(push("emb", {-1}, {1, 1, 1}), HasSubstr("row -1 of table emb"));
  EXPECT_THAT(push("emb", {7, 7}, {1, 1, 1, 1, 1, 1}), HasSubstr("must ascend"));
  EXPECT_THAT(push("emb", {7}, {1, NAN, 1}), HasSubstr("gradient of emb, row 7, element 1 is NaN"));
  float out[3];
  Answer<StatusOr<uint64_t>> pulled;
  client->PullRows({}, {{"emb", {4096}, {out}}}, pulled.Callback());
  EXPECT_THAT(std::string(pulled.Get().status().message()), HasSubstr("row 4096 of table emb"));
  const auto lamb = (*Client(0, 1))->Configure({}, ps::PsMode::kSync, {"lamb", {}}, {TableOf()});
  EXPECT_THAT(std::string(lamb.status().message()), HasSubstr("the configuration of trainer"));
  ps::PsTable other = TableOf();
  other.seed = 6;
  const auto seed = (*Client(0, 1))->Configure({kBias}, ps::PsMode::kSync, {kAdagrad, {}}, {other});
  EXPECT_THAT(std::string(seed.status().message()), HasSubstr("of seed 6, buckets [0, 1024), was"));
}

}  // namespace
}  // namespace tandem::pserver
