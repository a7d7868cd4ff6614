// Compares a table with a memory limit with the same table without a limit.
#include "pserver/tables/rows/row_tiers.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "common/base/rng.h"
#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "kernels/exec/scope.h"
#include "pserver/rocksdb/cold_store.h"
#include "pserver/tables/sparse_tables.h"
#include "pserver/tables/table_reads.h"
#include "tests/support/when_logged.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

constexpr int64_t kHeight = 4000, kDim = 5;
const graph::Init kInit = {graph::Init::kUniform, -0.5f, 0.5f};
using Floats = std::vector<float>;

struct Gradient {
  std::vector<uint64_t> ids;
  Floats values;
  RowsGradient view() const { return {ids, values.data()}; }
};

// Returns a gradient of about `rows` of the ids in [begin, end). If `counted` is true, the gradient
// has shows and clicks.
Gradient RandomGradient(uint64_t seed, uint64_t rows, uint64_t begin = 0, uint64_t end = kHeight,
                        bool counted = false) {
  const uint64_t key = StreamKey(seed, "gradient");
  Gradient g;
  for (uint64_t id = begin; id < end; ++id) {
    if (Philox(key, id)[0] % (end - begin) >= rows) continue;
    g.ids.push_back(id);
    if (counted) {
      const auto word = Philox(key, id);
      g.values.push_back(static_cast<float>(1 + word[1] % 3));
      g.values.push_back(static_cast<float>(word[2] % 2));
    }
    for (uint64_t c = 0; c < kDim; ++c) g.values.push_back(NormalAt(key, id * kDim + c));
  }
  return g;
}

// Expects that two results have the same rows with the same values.
void ExpectEqual(const RowValues& a, const RowValues& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.content, b.content);
  EXPECT_EQ(a.waiting, b.waiting);
  ASSERT_EQ(a.use.size(), b.use.size());
  for (size_t i = 0; i < a.use.size(); ++i) {
    EXPECT_EQ(a.use[i].show, b.use[i].show) << a.ids[i];
    EXPECT_EQ(a.use[i].age, b.use[i].age) << a.ids[i];
    EXPECT_EQ(a.use[i].click, b.use[i].click) << a.ids[i];
    EXPECT_EQ(a.use[i].brief, b.use[i].brief) << a.ids[i];
  }
}

class RowTiersTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tandem-cold-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    dir_ = name;
    store_ = Open();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<RocksdbColdStore> Open() const {
    auto store = RocksdbColdStore::Open({dir_ + "/cold", 1 << 20, 0});
    CHECK(store.ok()) << store.status();
    return *std::move(store);
  }
  // Creates a table with at most `rows_max` rows in memory; 0: all rows.
  std::unique_ptr<SparseTable> Make(const std::string& optimizer, const std::string& rules,
                                    int rows_max) {
    graph::OptimizerSpec of{optimizer, {}};
    if (optimizer == "adam") of.attrs["lazy_mode"] = true;
    TableSpec spec{"emb", Shape{kHeight, kDim}, kInit, 11, 0, kRowBuckets, {}};
    spec.rules = *ParseTableRules(rules);
    auto table = SparseTable::Make(spec, of, backend_, device_);
    CHECK(table.ok()) << table.status();
    if (rows_max == 0) return *std::move(table);
    const double row = (*table)->bytes_max() / kHeight;
    const Status limited = (*table)->Limit(*store_, static_cast<uint64_t>(row * (rows_max + 0.5)));
    CHECK(limited.ok()) << limited;
    return *std::move(table);
  }
  // Returns the event time of an update. Some updates have the same time as the update before, and
  // some times are several periods later.
  static int64_t EventTimeOf(uint64_t version) {
    return 1'700'000'000'000 + static_cast<int64_t>(version / 3 + 5 * (version / 25)) * 1000;
  }
  static Status Step(SparseTable& table, const Gradient& gradient, uint64_t version,
                     bool keep_previous = false) {
    TD_RETURN_IF_ERROR(table.Prepare(gradient.ids));
    TD_RETURN_IF_ERROR(table.Begin(version, EventTimeOf(version), keep_previous));
    const RowsGradient one[] = {gradient.view()};
    return table.Apply(one, 0.1f);
  }
  static Floats Rows(SparseTable& table, const std::vector<uint64_t>& ids, bool previous = false) {
    Floats values(ids.size() * kDim);
    const Status status = table.Pull(ids, previous, values.data());
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }
  static size_t InMemory(const SparseTable& table) { return table.rows() - table.Info().cold_rows; }
  // Makes the same random pulls, pushes and complete reads on both tables, and compares the
  // results.
  static void Compare(SparseTable& hot, SparseTable& tiered, uint64_t from, uint64_t to) {
    for (uint64_t version = from; version < to && !HasFailure(); ++version) {
      SCOPED_TRACE("version " + std::to_string(version));
      const auto word = Philox(StreamKey(3, "what"), version);
      // In two of three steps only a part of the rows is in use.
      const uint64_t begin = word[0] % 3 == 0 ? 0 : word[1] % (kHeight - 300);
      const uint64_t end = word[0] % 3 == 0 ? kHeight : begin + 300;
      const Gradient g =
          RandomGradient(version, 60, begin, end, /*counted=*/hot.push_width() != kDim);
      const bool keep_previous = word[2] % 2 == 0;
      ASSERT_TRUE(Step(hot, g, version, keep_previous).ok());
      const Status status = Step(tiered, g, version, keep_previous);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(tiered.rows(), hot.rows());
      EXPECT_EQ(tiered.Info().removed, hot.Info().removed);
      EXPECT_EQ(tiered.Info().dropped, hot.Info().dropped);
      EXPECT_EQ(tiered.Info().extended, hot.Info().extended);
      std::vector<uint64_t> asked;
      for (uint64_t i = 0; i < 150; ++i) asked.push_back(Philox(word[3], i)[0] % kHeight);
      // The ids of the push are also read, so some ids appear twice.
      asked.insert(asked.end(), g.ids.begin(), g.ids.end());
      EXPECT_EQ(Rows(tiered, asked), Rows(hot, asked));
      if (keep_previous) {
        EXPECT_EQ(Rows(tiered, asked, true), Rows(hot, asked, true));
      }
      if (version % 7 == 0) ExpectSameImage(hot, tiered, version + 1);
    }
  }
  static void ExpectEqual(const TableSnapshot& a, const TableSnapshot& b) {
    EXPECT_EQ(a.scalars, b.scalars);
    EXPECT_EQ(a.partial, b.partial);
    ASSERT_EQ(a.buckets.size(), b.buckets.size());
    for (size_t i = 0; i < a.buckets.size(); ++i) {
      ASSERT_EQ(a.buckets[i].first, b.buckets[i].first);
      tandem::pserver::ExpectEqual(a.buckets[i].second, b.buckets[i].second);
    }
  }
  static void ExpectSameImage(SparseTable& hot, SparseTable& tiered, uint64_t version) {
    const auto a = hot.Snapshot(version), b = tiered.Snapshot(version);
    ASSERT_TRUE(b.ok()) << b.status();
    ExpectEqual(*a, *b);
    for (const bool with_slots : {false, true}) {
      for (int bucket = 0; bucket < kRowBuckets;) {
        const auto x = TableReads(hot).Page(bucket, with_slots, 4000, version);
        const auto y = TableReads(tiered).Page(bucket, with_slots, 4000, version);
        ASSERT_TRUE(y.ok()) << y.status();
        tandem::pserver::ExpectEqual(x->rows, y->rows);
        ASSERT_EQ(x->next_bucket, y->next_bucket);
        bucket = x->next_bucket;
      }
    }
  }
  // Copies a snapshot, a random number of buckets at a time, with all kinds of changes of the table
  // between the copies. Expects that the result equals a snapshot that was copied before the
  // changes. Advances `version`.
  static void CompareCut(SparseTable& table, uint64_t* version, std::optional<uint64_t> since) {
    const auto then = table.Snapshot(*version, since);
    ASSERT_TRUE(then.ok()) << then.status();
    table.BeginSnapshot(*version, since);
    for (int bucket = 0; bucket < kRowBuckets; ++*version) {
      const auto word = Philox(StreamKey(5, "cut"), *version);
      const int end = std::min(kRowBuckets, bucket + static_cast<int>(word[0] % 200));
      while (bucket < end) (void)table.snapshot().CopyBucket(bucket++);
      const Gradient g = RandomGradient(*version, 400, 0, kHeight, table.push_width() != kDim);
      ASSERT_TRUE(Step(table, g, *version).ok());
      Rows(table, RandomGradient(*version + 1000, 100).ids);
      const int moved = static_cast<int>(word[1] % kRowBuckets);
      const int others[] = {static_cast<int>(word[2] % kRowBuckets)};
      ASSERT_TRUE(table.DropBucket(moved).ok());
      table.Keep(moved, true);
      auto set = table.Rows(others, *version);
      ASSERT_TRUE(set.ok()) << set.status();
      for (float& value : set->content) value += 1;
      for (WaitingRow& row : set->waiting) ++row.seen;
      ASSERT_TRUE(table.SetRows(*set, *version).ok());
    }
    const auto cut = table.snapshot().Finish();
    ASSERT_TRUE(cut.ok()) << cut.status();
    ExpectEqual(*cut, *then);
  }
  // Makes steps that together touch each row once, `each` rows per step.
  static void Fill(SparseTable& table, uint64_t each) {
    uint64_t version = 0;
    for (uint64_t begin = 0; begin < kHeight; begin += each) {
      const Status status =
          Step(table, RandomGradient(begin, each, begin, begin + each), version++);
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  std::string dir_;
  std::unique_ptr<RocksdbColdStore> store_;
  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
};

TEST_F(RowTiersTest, NoBitDependsOnTheTier) {
  for (const char* optimizer : {"sgd", "adagrad", "adam"}) {
    for (const char* rules :
         {"", "admit_count=2 shrink_every=6 ttl=25", "shrink_every=5 decay=0.8 shrink_score=0.5",
          "admit_probability=0.5 shrink_every=3 ttl=9",
          "admit_count=2 shrink_every_s=2 ttl_s=9 decay=0.8 shrink_score=0.3",
          "accessor=ctr embedx_threshold=2 shrink_every=5 decay=0.8 shrink_score=0.3 ttl=25"}) {
      for (const int rows_max : {1, 20, 90}) {
        SCOPED_TRACE(std::string(optimizer) + " " + rules + " " + std::to_string(rows_max));
        auto hot = Make(optimizer, rules, 0), tiered = Make(optimizer, rules, rows_max);
        Compare(*hot, *tiered, 0, 60);
        EXPECT_GT(tiered->Info().fetched, 20u);
        EXPECT_GT(tiered->Info().written, 20u);
        EXPECT_GT(tiered->Info().cold_rows, 0u);
      }
    }
  }
}

TEST_F(RowTiersTest, ACutHasNothingOfWhatCameBehindIt) {
  for (const char* optimizer : {"sgd", "adam", "momentum"}) {
    for (const char* rules :
         {"", "admit_count=3", "admit_count=2 shrink_every=6 ttl=25",
          "admit_count=2 shrink_every_s=2 ttl_s=9",
          "accessor=ctr embedx_threshold=2 shrink_every=11 decay=0.8 shrink_score=0.3 ttl=25"}) {
      for (const int rows_max : {0, 90}) {
        // Momentum changes every row in each step. Therefore momentum is tested only without a
        // memory limit and without the ctr accessor.
        const bool fades = optimizer == std::string("momentum");
        if (fades && (rows_max != 0 || std::string(rules).find("ctr") != std::string::npos))
          continue;
        SCOPED_TRACE(std::string(optimizer) + " " + rules + " " + std::to_string(rows_max));
        auto table = Make(optimizer, rules, rows_max);
        uint64_t version = 0;
        for (; version < 20; ++version) {
          const Gradient g = RandomGradient(version, 400, 0, kHeight, table->push_width() != kDim);
          ASSERT_TRUE(Step(*table, g, version).ok());
        }
        CompareCut(*table, &version, std::nullopt);
        CompareCut(*table, &version, version - 6);
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

// A checkpoint of a table with or without a memory limit can be loaded into a table of either kind.
TEST_F(RowTiersTest, ImagesGoFromOneToTheOther) {
  const char* rules = "admit_count=2 shrink_every=6 ttl=25 decay=0.9 shrink_score=0.3";
  auto hot = Make("adagrad", rules, 0), tiered = Make("adagrad", rules, 100);
  Compare(*hot, *tiered, 0, 40);
  auto hot_too = Make("adagrad", rules, 0), tiered_too = Make("adagrad", rules, 50);
  for (const auto& [from, to] :
       {std::pair(tiered.get(), hot_too.get()), std::pair(hot.get(), tiered_too.get())}) {
    const auto image = from->Snapshot(40);
    ASSERT_TRUE(image.ok()) << image.status();
    for (const auto& [bucket, rows] : image->buckets) ASSERT_TRUE(to->SetRows(rows, 40).ok());
  }
  EXPECT_LE(InMemory(*tiered_too), 50u + 64u);
  // A table that loads a checkpoint starts its counts of removals at 0, so the test compares only
  // the differences of the counts.
  const uint64_t removed = hot->Info().removed;
  for (uint64_t version = 40; version < 70; ++version) {
    const Gradient g = RandomGradient(version, 80);
    for (SparseTable* table : {hot.get(), tiered.get(), hot_too.get(), tiered_too.get()}) {
      const Status status = Step(*table, g, version);
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  EXPECT_GT(hot->Info().removed, removed);
  ExpectSameImage(*hot, *hot_too, 70);
  ExpectSameImage(*hot, *tiered, 70);
  ExpectSameImage(*hot, *tiered_too, 70);
}

// Rows that are not in memory get new values and new counts of the rules by SetRows. The new values
// and counts replace the old ones.
TEST_F(RowTiersTest, RowsThatAreSetAgainAreTheLastOnes) {
  const char* rules = "shrink_every=4 decay=0.5 shrink_score=0.4";
  auto hot = Make("sgd", rules, 0), tiered = Make("sgd", rules, 40);
  for (const float score : {8.0f, 1.0f}) {
    for (uint64_t begin = 0; begin < kHeight; begin += 100) {
      RowValues rows{"emb", {}, {}, false, {}, {}};
      for (uint64_t id = begin; id < begin + 100; ++id) {
        rows.ids.push_back(id);
        rows.content.insert(rows.content.end(), kDim, score + static_cast<float>(id));
        rows.use.push_back({score, 1});
      }
      for (SparseTable* table : {hot.get(), tiered.get()}) {
        const Status status = table->SetRows(rows, 0);
        ASSERT_TRUE(status.ok()) << status;
      }
    }
  }
  EXPECT_EQ(tiered->rows(), static_cast<size_t>(kHeight));
  ExpectSameImage(*hot, *tiered, 0);
  Compare(*hot, *tiered, 1, 12);
  EXPECT_GT(hot->Info().removed, 3000u);
}

TEST_F(RowTiersTest, MemoryIsBoundedAndReadingWritesNothing) {
  auto hot = Make("sgd", "", 0), tiered = Make("sgd", "", 200);
  for (SparseTable* table : {hot.get(), tiered.get()}) Fill(*table, 50);
  EXPECT_EQ(tiered->rows(), hot->rows());
  EXPECT_GT(tiered->rows(), 15 * InMemory(*tiered));
  EXPECT_LE(InMemory(*tiered), 200u);
  const uint64_t written = tiered->Info().written, fetched = tiered->Info().fetched;
  std::vector<uint64_t> all(kHeight);
  std::iota(all.begin(), all.end(), 0);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(Rows(*tiered, all), Rows(*hot, all));
  EXPECT_LE(InMemory(*tiered), 200u + 64u) << "and what one group of a pull brings in";
  EXPECT_GT(tiered->Info().fetched - fetched, 2 * tiered->rows());
  EXPECT_LE(tiered->Info().written - written, 200u) << "those that were changed before";
  EXPECT_GT(tiered->Info().read_seconds, 0);
}

// The clock algorithm must keep rows in memory that are used repeatedly.
TEST_F(RowTiersTest, WhatIsInUseStays) {
  auto table = Make("sgd", "", 400);
  const Gradient often = RandomGradient(1, 100, 0, 100);
  ASSERT_TRUE(Step(*table, often, 0).ok());
  uint64_t version = 1, came_back = 0;
  for (uint64_t begin = 100; begin + 50 <= kHeight; begin += 50) {
    ASSERT_TRUE(Step(*table, RandomGradient(begin, 50, begin, begin + 50), version++).ok());
    const uint64_t before = table->Info().fetched;
    Rows(*table, often.ids);
    came_back += table->Info().fetched - before;
  }
  EXPECT_LE(came_back, 100u) << "once, when the hand had not been round before";
  EXPECT_GT(table->Info().cold_rows, 3000u);
}

TEST_F(RowTiersTest, AFullDiskIsNamedAndLosesNothing) {
  const char* rules = "shrink_every=5 ttl=30";
  auto hot = Make("adagrad", rules, 0), tiered = Make("adagrad", rules, 100);
  Compare(*hot, *tiered, 0, 20);
  store_->set_free_bytes_min(uint64_t{1} << 60);
  // Acknowledged pushes must not be lost. After some steps the table rejects a push before the push
  // changes anything.
  uint64_t version = 20;
  Status refused;
  for (; refused.ok() && version < 60; ++version) {
    const Gradient g = RandomGradient(version, 60);
    refused = Step(*tiered, g, version);
    if (!refused.ok()) break;
    ASSERT_TRUE(Step(*hot, g, version).ok());
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(dir_ + "/cold"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("free bytes"));
  ExpectSameImage(*hot, *tiered, version);
  // The table completes steps that it accepted before the rejection, and its rules still remove
  // rows.
  for (uint64_t more = 0; more < 12; ++more, ++version) {
    const Gradient g = RandomGradient(version, 30);
    for (SparseTable* table : {hot.get(), tiered.get()}) {
      ASSERT_TRUE(table->Begin(version, 0, true).ok());
      const RowsGradient one[] = {g.view()};
      const Status applied = table->Apply(one, 0.1f);
      ASSERT_TRUE(applied.ok()) << applied;
    }
  }
  EXPECT_EQ(tiered->Info().removed, hot->Info().removed);
  ExpectSameImage(*hot, *tiered, version);
  store_->set_free_bytes_min(0);
  Compare(*hot, *tiered, version, version + 20);
  EXPECT_LE(InMemory(*tiered), 100u + 64u);
}

TEST_F(RowTiersTest, DamagedRowsAreNamed) {
  auto table = Make("sgd", "", 50);
  Fill(*table, 50);
  table->Prepare({}).IgnoreError();
  ASSERT_TRUE(store_->Flush().ok());
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_ + "/cold")) {
    if (entry.path().extension() != ".sst") continue;
    ++files;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (int at = 100; at < 3000; at += 40) {
      file.seekp(at);
      file.put('\x5a');
    }
  }
  ASSERT_GT(files, 0);
  std::vector<uint64_t> all(kHeight);
  std::iota(all.begin(), all.end(), 0);
  Floats values(all.size() * kDim);
  const Status pulled = table->Pull(all, false, values.data());
  EXPECT_EQ(pulled.code(), absl::StatusCode::kDataLoss) << pulled;
  EXPECT_THAT(std::string(pulled.message()), HasSubstr(dir_ + "/cold"));
  EXPECT_EQ(table->Snapshot(0).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(RowTiersTest, WaitsForTheFolderOfAServerThatIsEnding) {
  Fill(*Make("sgd", "", 50), 50);
  const WhenLogged waits("is in use by another process", [this] { store_.reset(); });
  EXPECT_NE(Open(), nullptr);
  EXPECT_EQ(waits.times(), 1);
}

TEST_F(RowTiersTest, AFolderIsEmptiedAndHasOneOwner) {
  Fill(*Make("sgd", "", 50), 50);
  EXPECT_THAT(std::string(RocksdbColdStore::Open({dir_ + "/cold"}).status().message()),
              HasSubstr(dir_ + "/cold"));
  store_.reset();
  std::ofstream(dir_ + "/cold/notes.txt") << "mine";
  store_ = Open();
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/cold/notes.txt")) << "nobody else's";
  auto hot = Make("sgd", "", 0), tiered = Make("sgd", "", 50);
  Compare(*hot, *tiered, 0, 10);
}

TEST_F(RowTiersTest, AFolderThatOthersWriteIsRefusedAndStaysAsItIs) {
  const std::string folder = dir_ + "/open";
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  std::ofstream(folder + "/000001.log") << "of another user";
  EXPECT_EQ(RocksdbColdStore::Open({folder}).status().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(std::filesystem::exists(folder + "/000001.log"));
}

TEST_F(RowTiersTest, TablesOfOneServerDoNotMeet) {
  auto hot = Make("sgd", "", 0), one = Make("sgd", "", 50), other = Make("adagrad", "", 80);
  Fill(*other, 50);
  auto brief = Make("sgd", "", 20);
  Fill(*brief, 100);
  Compare(*hot, *one, 0, 20);
  brief.reset();
  Compare(*hot, *one, 20, 30);
}

TEST_F(RowTiersTest, OptimizersThatChangeEveryRowAreRefused) {
  for (const char* type : {"adam", "momentum"}) {
    TableSpec spec{"emb", Shape{kHeight, kDim}, kInit, 11, 0, kRowBuckets, {}};
    ShardConfig config;
    config.trainers = 1;
    config.optimizer = {type, {}};
    config.tables = {spec};
    const auto make = [&](uint64_t bytes) {
      return SparseTables::Make(config, backend_, device_, {bytes, store_.get()}).status();
    };
    EXPECT_THAT(std::string(make(10000).message()), HasSubstr("hint: set optimizer.lazy_mode"));
    EXPECT_TRUE(make(10'000'000).ok()) << "all its rows fit";
    config.optimizer.attrs["lazy_mode"] = true;
    EXPECT_TRUE(make(10000).ok());
  }
}

TEST(ShareMemory, SmallTablesTakeWhatTheyNeedAndTheOthersShare) {
  EXPECT_EQ(ShareMemory({10, 100, 100}, 90), (std::vector<double>{10, 40, 40}));
  EXPECT_EQ(ShareMemory({100, 20, 1000, 50}, 200), (std::vector<double>{65, 20, 65, 50}));
  EXPECT_EQ(ShareMemory({10, 20}, 90), (std::vector<double>{10, 20}));
}

}  // namespace
}  // namespace tandem::pserver
