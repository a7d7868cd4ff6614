// Deltas of checkpoints: the table rows that changed since the last full checkpoint.
#include <fstream>
#include <random>

#include "pserver/shard/checkpoint_calls.h"
#include "tests/unit/pserver/pserver_fixture.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Kind {
  const char* name;
  ps::PsOptimizer optimizer;
  std::string rules;
  uint64_t memory = 0;  // limit of the rows in memory, in bytes; 0: no limit
  Durability durability = Durability::kNone;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// A fixture with one trainer, a table and a vector.
class DeltaTest : public PserverTest, public testing::WithParamInterface<Kind> {
 protected:
  static constexpr int64_t kHeight = 4000, kDim = 8;

  void Serve(const std::string& dir) {
    client_.reset();
    servers_.clear();
    endpoints_.clear();
    PserverOptions options;
    options.data_dir = dir;
    options.durability = GetParam().durability;
    options.table_memory_bytes = GetParam().memory;
    options.cold_dir = dir + "/cold";
    StartServers(1, options);
    client_ = *Client(0, 1);
    const ps::PsTable table{.variable = "emb",
                            .height = kHeight,
                            .dim = kDim,
                            .init = ps::PsTable::InitKind::kNormal,
                            .b = 1,
                            .seed = 3,
                            .rules = GetParam().rules};
    const auto state =
        client_->Configure({{"w", Shape{4}}}, ps::PsMode::kSync, GetParam().optimizer, {table});
    ASSERT_TRUE(state.ok()) << state.status();
    std::vector<float> w(4, 1.0f);
    const ps::PsTensor tensor = {"w", w.data(), 4};
    ASSERT_TRUE(client_->InitOrFetch({&tensor, 1}).ok());
  }
  // Trains steps [from, to). The first steps change rows of the whole table, later steps change
  // only a part of the rows.
  void Train(uint64_t from, uint64_t to) {
    for (uint64_t step = from; step < to; ++step) {
      std::mt19937 random(static_cast<uint32_t>(step));
      std::set<int64_t> ids;
      const int64_t reach = step < 8 ? kHeight : 60;
      for (int i = 0; i < (step < 8 ? 400 : 20); ++i) {
        ids.insert(static_cast<int64_t>(random()) % reach);
      }
      const std::vector<int64_t> rows(ids.begin(), ids.end());
      const bool counted = std::string_view(GetParam().rules).starts_with("accessor=ctr");
      const size_t width = (counted ? 2 : 0) + kDim;
      std::vector<float> values(rows.size() * width), w(4, 0.25f);
      for (float& v : values) v = static_cast<float>(random() % 64) / 64 - 0.5f;
      for (size_t i = 0; counted && i < rows.size(); ++i) {
        values[i * width] = static_cast<float>(1 + random() % 3);
        values[i * width + 1] = static_cast<float>(random() % 2);
      }
      Answer<Status> pushed;
      client_->Push(step, 0.1f, {{"w", w.data(), 4}}, pushed.Callback(),
                    {{"emb", rows, values.data()}},
                    1'700'000'000'000 + static_cast<int64_t>(step) * 1000);
      const Status status = pushed.Get();
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  // The complete state of the table's rows and of the vector.
  struct State {
    ps::PsTableRows table;
    std::vector<float> w = std::vector<float>(4);
    std::vector<std::pair<std::string, std::vector<float>>> slots;
  };
  State Now() {
    State state;
    const auto table = client_->PullTable("emb", true);
    EXPECT_TRUE(table.ok()) << table.status();
    state.table = *table;
    EXPECT_TRUE(PullAndWait(*client_, 0, {{"w", state.w.data(), 4}}).ok());
    const auto slots = client_->PullState();
    EXPECT_TRUE(slots.ok()) << slots.status();
    for (const ps::PsSlot& s : *slots) state.slots.emplace_back(s.slot, s.values);
    return state;
  }
  static void ExpectSame(const State& a, const State& b) {
    EXPECT_EQ(a.table.ids, b.table.ids);
    EXPECT_EQ(a.table.content, b.table.content);
    EXPECT_TRUE(a.table.use == b.table.use);
    ASSERT_EQ(a.table.waiting.size(), b.table.waiting.size());
    for (size_t i = 0; i < a.table.waiting.size(); ++i) {
      const auto &x = a.table.waiting[i], &y = b.table.waiting[i];
      EXPECT_TRUE(x.id == y.id && x.seen == y.seen && x.age == y.age) << x.id;
    }
    EXPECT_EQ(a.w, b.w);
    EXPECT_EQ(a.slots, b.slots);
  }
  // Returns the sizes in bytes of the files of values, by the number of the file.
  static std::map<int, size_t> Values(const std::string& dir) {
    std::map<int, size_t> found;
    for (const auto& entry : std::filesystem::directory_iterator(dir + "/shard-0")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("values-")) found[std::stoi(name.substr(7))] = entry.file_size();
    }
    return found;
  }

  std::unique_ptr<ps::PsClient> client_;
};

TEST_P(DeltaTest, BaseAndDeltaAreTheWholeState) {
  Serve(dir_ + "/undisturbed");
  Train(0, 31);
  const State expected = Now();
  EXPECT_GT(expected.table.ids.size(), 10u);
  const std::string dir = dir_ + "/disturbed";
  Serve(dir);
  Train(0, 10);
  ASSERT_TRUE(client_->Save().ok());
  Train(10, 14);
  ASSERT_TRUE(client_->Save(/*delta=*/true).ok());
  Train(14, 23);
  ASSERT_EQ(*client_->Save(/*delta=*/true), 23u);
  const auto files = Values(dir);
  ASSERT_EQ(files.size(), 2u) << "a delta takes the place of the one before";
  if (GetParam().optimizer.type != "momentum") {
    EXPECT_LT(files.rbegin()->second, files.begin()->second / 2);
  }
  const State then = Now();
  Serve(dir);  // restarts the server, which saved nothing after `then`
  EXPECT_EQ(servers_[0]->restored_version(), 23u);
  ExpectSame(Now(), then);
  // The base of a delta may come from an earlier process of the server.
  Train(23, 27);
  ASSERT_EQ(*client_->Save(/*delta=*/true), 27u);
  EXPECT_EQ(Values(dir).begin()->first, files.begin()->first);
  const State later = Now();
  Serve(dir);
  EXPECT_EQ(servers_[0]->restored_version(), 27u);
  ExpectSame(Now(), later);
  Train(27, 31);
  ExpectSame(Now(), expected);
  ASSERT_TRUE(client_->Save().ok());
  EXPECT_EQ(Values(dir).size(), 1u) << "a whole one takes the place of both";
  Train(31, 33);
  ASSERT_TRUE(client_->Save(/*delta=*/true).ok());
  const State late = Now();
  Train(33, 35);
  ASSERT_EQ(*client_->Restore(), 33u);
  ExpectSame(Now(), late);
  // After Restore, a server does not know the changes since the base of the delta, so it rejects a
  // delta. A server with a log has written a full checkpoint during Restore, so it accepts a delta.
  EXPECT_EQ(client_->Save(/*delta=*/true).ok(), GetParam().durability == Durability::kLogged);
}

TEST_P(DeltaTest, NeedsAWholeOne) {
  Serve(dir_);
  Train(0, 4);
  const auto refused = [&] {
    const Status status = client_->Save(/*delta=*/true).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("has written no full checkpoint since its start"));
  };
  // A server with a log has already written its initial values as a full checkpoint.
  if (GetParam().durability == Durability::kNone) refused();
  ASSERT_TRUE(client_->Save().ok());
  ASSERT_TRUE(client_->Save(/*delta=*/true).ok());
  Serve(dir_);
  ASSERT_TRUE(client_->Save(/*delta=*/true).ok()) << "a restart goes on";
  ASSERT_TRUE(client_->Restore().ok());
  if (GetParam().durability == Durability::kNone) refused();
}

TEST_P(DeltaTest, DamageOfEitherFileIsNoticed) {
  Serve(dir_);
  Train(0, 10);
  ASSERT_TRUE(client_->Save().ok());
  Train(10, 12);
  ASSERT_TRUE(client_->Save(/*delta=*/true).ok());
  client_.reset();
  servers_.clear();
  for (const auto& [number, bytes] : Values(dir_)) {
    const std::string path = dir_ + "/shard-0/values-" + std::to_string(number);
    const auto flip = [&path, bytes = bytes] {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(bytes / 2));
      const char byte = static_cast<char>(file.get() ^ 4);
      file.seekp(static_cast<std::streamoff>(bytes / 2));
      file.put(byte);
    };
    flip();
    PserverOptions options;
    options.data_dir = dir_;
    options.durability = GetParam().durability;
    options.table_memory_bytes = GetParam().memory;
    options.cold_dir = dir_ + "/cold";
    EXPECT_EQ(Pserver::Start(options, metrics_).status().code(), StatusCode::kDataLoss) << path;
    flip();
    EXPECT_TRUE(Pserver::Start(options, metrics_).ok());
  }
}

const ps::PsOptimizer kAdagrad = {"adagrad", {}};
const ps::PsOptimizer kLazyAdam = {"adam", {{"lazy_mode", true}}};

INSTANTIATE_TEST_SUITE_P(
    Kinds, DeltaTest,
    testing::Values(Kind{"adagrad", kAdagrad, ""}, Kind{"lazy_adam", kLazyAdam, ""},
                    Kind{"momentum", {"momentum", {}}, ""},
                    Kind{"fading", kAdagrad, "shrink_every=5 decay=0.7 shrink_score=0.3 ttl=30"},
                    Kind{"admission", kAdagrad, "admit_count=2 shrink_every=5 ttl=9"},
                    Kind{"ctr", kAdagrad,
                         "accessor=ctr embedx_threshold=1 shrink_every=5 decay=0.7 "
                         "shrink_score=0.3 ttl=30"},
                    Kind{"cold", kAdagrad, "shrink_every=3 ttl=12", 20'000},
                    Kind{"event_time", kAdagrad,
                         "admit_count=2 shrink_every_s=4 decay=0.7 shrink_score=0.3 ttl_s=13"},
                    Kind{"event_time_cold", kAdagrad, "shrink_every_s=3 ttl_s=9", 20'000},
                    Kind{"event_time_logged", kAdagrad, "shrink_every_s=3 ttl_s=9", 0,
                         Durability::kLogged},
                    Kind{"logged", kAdagrad, "", 0, Durability::kLogged}),
    [](const auto& info) { return std::string(info.param.name); });

// Tests checkpoints that a server makes by itself: two deltas follow each full checkpoint.
using DeltaShardTest = ShardFixture;
TEST_F(DeltaShardTest, EveryThirdIsWhole) {
  std::vector<bool> deltas;
  Shard::Options options;
  options.checkpoint_every_steps = 1;
  options.checkpoint_deltas = 2;
  bool kept = true;
  options.on_checkpoint = [&](uint64_t, const SnapshotFn& copy) {
    const ShardSnapshot image = *copy();
    deltas.push_back(image.base.has_value());
    if (kept) shard_->checkpoints().OnStored(image);
  };
  Make(std::move(options));
  Start(Config(1, UpdatePolicy::kSync));
  const auto steps = [&](uint64_t from, uint64_t to) {
    deltas.clear();
    for (uint64_t step = from; step < to; ++step) {
      ASSERT_TRUE(Push(Head(Rank(0), step + 1, step), 0.5f).ok());
    }
  };
  steps(0, 7);
  EXPECT_THAT(deltas, ElementsAre(false, true, true, false, true, true, false));
  // A checkpoint that failed must not become the base of a delta.
  kept = false;
  steps(7, 12);
  EXPECT_THAT(deltas, ElementsAre(true, true, false, false, false));
}

}  // namespace
}  // namespace tandem::pserver
