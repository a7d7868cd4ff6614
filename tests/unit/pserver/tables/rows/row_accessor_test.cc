// Tests accessor=ctr of tables: the counts, the score, and the times at which a row gets its
// embedding, decays and is removed. Snapshots must contain all these values.
#include "pserver/tables/rows/row_accessor.h"

#include "common/base/rng.h"
#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "kernels/exec/scope.h"
#include "pserver/tables/sparse_tables.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;

constexpr int64_t kDim = 4;
const graph::Init kInit = {graph::Init::kNormal, 0.0f, 0.5f};
const Shape kShape = {int64_t{1} << 50, kDim};

TEST(RowAccessor, ScoreAndThresholds) {
  // Paddle's defaults: the score is 0.1 (shows - clicks) + 1 click. A row with a score of at least
  // 10 gets its embedding.
  const RowAccessor paddle(*ParseTableRules("accessor=ctr"), kDim);
  struct Case {
    float show, click, score;
    bool extends;
  };
  for (const Case& c : {Case{0, 0, 0, false},
                        {10, 0, 1, false},
                        {10, 10, 10, true},
                        {99, 0, 9.9f, false},
                        {100, 0, 10, true},
                        {19, 9, 10, true},
                        {18, 9, 9.9f, false}}) {
    const RowUse use{c.show, c.click, 0};
    EXPECT_FLOAT_EQ(paddle.Score(use), c.score) << c.show << " " << c.click;
    EXPECT_EQ(paddle.Extends(use), c.extends) << c.show << " " << c.click;
  }
  const RowAccessor other(
      *ParseTableRules("accessor=ctr nonclk_coeff=0.5 click_coeff=3 embedx_threshold=2"), kDim);
  EXPECT_FLOAT_EQ(other.Score({4, 1, 0}), 4.5f);
  EXPECT_FALSE(other.Extends({3, 0, 0}));
  EXPECT_TRUE(other.Extends({4, 0, 0}));
  const RowAccessor common(TableRules(), kDim);
  EXPECT_FLOAT_EQ(common.Score({7, 0, 0}), 7);
  EXPECT_FALSE(common.extends());
}

TEST(RowAccessor, CountsFadeAndRemove) {
  const RowAccessor ctr(*ParseTableRules("accessor=ctr shrink_every=1 decay=0.5 shrink_score=0.8 "
                                         "ttl=30"),
                        kDim);
  RowUse use;
  const Floats pushed = {4, 1};
  ctr.Count(pushed.data(), 7, use);
  ctr.Count(pushed.data(), 9, use);
  EXPECT_EQ(use.show, 8);
  EXPECT_EQ(use.click, 2);
  EXPECT_EQ(use.last, 9u);
  const auto check = [](uint64_t version) {
    return RowCheck{.version = version, .age_max = 30, .decay = 0.5f};
  };
  EXPECT_TRUE(ctr.FadeAndStay(check(10), use));
  EXPECT_EQ(use.show, 4);
  EXPECT_EQ(use.click, 1);
  EXPECT_FALSE(ctr.FadeAndStay(check(11), use)) << "0.1 * 1.5 + 0.5 is less than 0.8";
  use = {1000, 0, 9};
  EXPECT_TRUE(ctr.FadeAndStay(check(39), use));
  EXPECT_FALSE(ctr.FadeAndStay(check(40), use)) << "31 versions without a gradient";
}

TEST(RowAccessor, RulesAreRefusedByName) {
  const auto refused = [](const char* text) {
    return std::string(ParseTableRules(text).status().message());
  };
  EXPECT_THAT(refused("accessor=ctrr"),
              HasSubstr("accessor=\"ctrr\" is unknown, expected common or ctr [TD1103]"));
  EXPECT_THAT(refused("embedx_threshold=3"), HasSubstr("no effect without accessor=ctr"));
  EXPECT_THAT(refused("accessor=common click_coeff=2"), HasSubstr("without accessor=ctr"));
  EXPECT_THAT(refused("accessor=ctr nonclk_coeff=-1"),
              HasSubstr("nonclk_coeff=-1 is out of range, expected 0 to"));
  for (const char* text : {"accessor=ctr", "accessor=ctr click_coeff=2 embedx_threshold=0.5",
                           "accessor=ctr admit_count=2 shrink_every=10 decay=0.5 shrink_score=1"}) {
    const auto rules = ParseTableRules(text);
    ASSERT_TRUE(rules.ok()) << rules.status();
    EXPECT_EQ(ToString(*rules), text);
  }
}

struct Pushed {
  std::vector<uint64_t> ids;
  Floats values;  // shows, clicks and gradient of each row
  RowsGradient view() const { return {ids, values.data()}; }
};

class CtrTableTest : public testing::Test {
 protected:
  StatusOr<std::unique_ptr<SparseTable>> TryMake(const std::string& rules, const std::string& type,
                                                 bool lazy = true) {
    graph::OptimizerSpec optimizer{type, {}};
    if (type == "adam") optimizer.attrs["lazy_mode"] = lazy;
    TableSpec spec{"emb", kShape, kInit, 11, 0, kRowBuckets, *ParseTableRules(rules)};
    return SparseTable::Make(spec, optimizer, backend_, device_);
  }
  std::unique_ptr<SparseTable> Make(const std::string& rules, const std::string& type = "sgd") {
    auto table = TryMake(rules, type);
    CHECK(table.ok()) << table.status();
    return *std::move(table);
  }
  static void Update(SparseTable& table, uint64_t version, const Pushed& pushed,
                     bool keep_previous = false) {
    ASSERT_TRUE(table.Begin(version, 0, keep_previous).ok());
    const RowsGradient one[] = {pushed.view()};
    ASSERT_TRUE(table.Apply(one, 0.25f).ok());
  }
  static Pushed Of(uint64_t id, float show, float click) {
    return {{id}, {show, click, 1, 1, 1, 1}};
  }
  static Floats Row(SparseTable& table, uint64_t id, bool previous = false) {
    Floats row(kDim, NAN);
    EXPECT_TRUE(table.Pull({&id, 1}, previous, row.data()).ok());
    return row;
  }
  static Floats Fresh(uint64_t id) {
    Floats row(kDim);
    exec::FillInitial("emb", kInit, kShape, 11, static_cast<int64_t>(id) * kDim, row);
    return row;
  }
  static Pushed Random(uint64_t version, uint64_t rows) {
    const uint64_t key = StreamKey(version, "pushed");
    Pushed p;
    for (uint64_t id = 0; id < rows; ++id) {
      const auto word = Philox(key, id);
      if (word[0] % 4 != 0 && id > 20) continue;
      p.ids.push_back(id);
      p.values.push_back(static_cast<float>(1 + word[1] % 3));
      p.values.push_back(word[2] % 4 == 0 ? 1 : 0);
      for (uint64_t c = 0; c < kDim; ++c) p.values.push_back(NormalAt(key, id * kDim + c));
    }
    return p;
  }

  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
};

TEST_F(CtrTableTest, ARowGetsItsEmbeddingBehindTheUpdateThatMakesItsScoreFull) {
  auto table = Make("accessor=ctr embedx_threshold=2");
  const Floats fresh = Fresh(7);
  EXPECT_EQ(Row(*table, 7), (Floats{fresh[0], 0, 0, 0}));
  Update(*table, 0, Of(7, 1, 1));
  EXPECT_EQ(Row(*table, 7), (Floats{fresh[0] - 0.25f, 0, 0, 0}));
  EXPECT_EQ(table->Info().extended, 0u);
  Update(*table, 1, Of(7, 1, 1), true);
  // Gradients that arrive before the row gets its embedding have no effect on the embedding.
  EXPECT_EQ(Row(*table, 7), (Floats{fresh[0] - 0.5f, fresh[1], fresh[2], fresh[3]}));
  EXPECT_EQ(Row(*table, 7, true), (Floats{fresh[0] - 0.25f, 0, 0, 0}));
  EXPECT_EQ(table->Info().extended, 1u);
  Update(*table, 2, Of(7, 1, 0), true);
  EXPECT_EQ(Row(*table, 7),
            (Floats{fresh[0] - 0.75f, fresh[1] - 0.25f, fresh[2] - 0.25f, fresh[3] - 0.25f}));
  EXPECT_EQ(Row(*table, 7, true), (Floats{fresh[0] - 0.5f, fresh[1], fresh[2], fresh[3]}));
  EXPECT_EQ(table->rows(), 1u);
}

// Each weight that a row has must have the same bits as in a table whose rows have all weights from
// the start and receive the same gradients.
TEST_F(CtrTableTest, TheWeightIsThatOfACommonTable) {
  for (const char* type : {"sgd", "adagrad", "adam"}) {
    SCOPED_TRACE(type);
    auto ctr = Make("accessor=ctr embedx_threshold=3", type), common = Make("", type);
    for (uint64_t version = 0; version < 20; ++version) {
      const Pushed p = Random(version, 3000);
      Pushed bare{p.ids, {}};
      for (size_t i = 0; i < p.ids.size(); ++i) {
        const auto row = p.values.begin() + static_cast<int64_t>(i) * (2 + kDim);
        bare.values.insert(bare.values.end(), row + 2, row + 2 + kDim);
      }
      Update(*ctr, version, p);
      Update(*common, version, bare);
    }
    EXPECT_GT(ctr->Info().extended, 100u);
    EXPECT_LT(ctr->Info().extended, ctr->rows());
    for (uint64_t id = 0; id < 3000; ++id) ASSERT_EQ(Row(*ctr, id)[0], Row(*common, id)[0]) << id;
  }
}

TEST_F(CtrTableTest, RowsWithoutEmbeddingTakeLittleMemory) {
  constexpr uint64_t kRows = 200'000;
  constexpr int64_t kWide = 64;
  const auto bytes = [&](const char* rules, size_t counts) {
    TableSpec spec{"emb", {1 << 20, kWide}, kInit, 11, 0, kRowBuckets, *ParseTableRules(rules)};
    auto table = *SparseTable::Make(spec, {"adagrad", {}}, backend_, device_);
    std::vector<uint64_t> ids(kRows);
    for (uint64_t id = 0; id < kRows; ++id) ids[id] = id;
    const Floats values(kRows * (counts + kWide), 0.0f);
    CHECK(table->Begin(0, 0, false).ok());
    const RowsGradient one[] = {{ids, values.data()}};
    CHECK(table->Apply(one, 0.1f).ok());
    return static_cast<double>(table->Info().bytes);
  };
  // A row stores only two of its 128 floats, and its clicks.
  EXPECT_LT(bytes("accessor=ctr", 2), bytes("", 0) / 10);
}

TEST_F(CtrTableTest, TrainersCountsAreAddedUp) {
  auto together = Make("accessor=ctr embedx_threshold=3"), apart = Make("accessor=ctr");
  const Pushed a{{3, 5}, {2, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1}}, b = Of(5, 3, 3);
  const RowsGradient both[] = {a.view(), b.view()};
  ASSERT_TRUE(together->Begin(0, 0, false).ok());
  ASSERT_TRUE(together->Apply(both, 0.25f).ok());
  const std::vector<int> buckets = {RowBucket(3), RowBucket(5)};
  const auto rows = together->Rows(buckets, 1);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->ids, (std::vector<uint64_t>{3, 5}));
  EXPECT_EQ(rows->use[0].show, 2);
  EXPECT_EQ(rows->use[0].click, 1);
  EXPECT_TRUE(rows->use[0].brief);
  EXPECT_EQ(rows->use[1].show, 4);
  EXPECT_EQ(rows->use[1].click, 3);
  EXPECT_FALSE(rows->use[1].brief) << "0.1 * 1 + 3 is 3.1";
}

// Restores a snapshot in memory and with a memory limit, on one server and on three servers. All
// tables must continue with the same bits.
TEST_F(CtrTableTest, ImagesHoldCountsAndLengths) {
  const char* rules =
      "accessor=ctr embedx_threshold=2 shrink_every=7 decay=0.8 shrink_score=0.3 ttl=40";
  auto whole = Make(rules, "adagrad");
  for (uint64_t version = 0; version < 20; ++version) Update(*whole, version, Random(version, 900));
  const auto image = whole->Snapshot(20);
  ASSERT_TRUE(image.ok()) << image.status();
  auto copy = Make(rules, "adagrad");
  for (const auto& [bucket, rows] : image->buckets) {
    const Status set = copy->SetRows(rows, 20);
    ASSERT_TRUE(set.ok()) << set;
    ASSERT_TRUE(copy->SetRows(rows, 20).ok()) << "they may come twice";
  }
  EXPECT_EQ(copy->Info().extended, whole->Info().extended);
  for (uint64_t version = 20; version < 50; ++version) {
    for (SparseTable* table : {whole.get(), copy.get()})
      Update(*table, version, Random(version, 400));
  }
  EXPECT_GT(whole->Info().removed, 100u);
  EXPECT_GT(whole->Info().extended, 10u);
  EXPECT_EQ(copy->rows(), whole->rows());
  const auto a = whole->Snapshot(50), b = copy->Snapshot(50);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(a->buckets.size(), b->buckets.size());
  for (size_t i = 0; i < a->buckets.size(); ++i) {
    const RowValues &x = a->buckets[i].second, &y = b->buckets[i].second;
    ASSERT_EQ(x.ids, y.ids);
    ASSERT_EQ(x.content, y.content);
    for (size_t r = 0; r < x.use.size(); ++r) {
      ASSERT_TRUE(x.use[r].show == y.use[r].show && x.use[r].click == y.use[r].click &&
                  x.use[r].age == y.use[r].age && x.use[r].brief == y.use[r].brief);
    }
  }
}

TEST_F(CtrTableTest, WhatCannotBeIsRefused) {
  EXPECT_THAT(
      std::string(TryMake("accessor=ctr", "adam", false).status().message()),
      HasSubstr("which accessor=ctr does not support [TD1203]; hint: set optimizer.lazy_mode"));
  EXPECT_TRUE(TryMake("accessor=ctr", "adam").ok());
  auto table = Make("accessor=ctr");
  const auto refused = [&](const Pushed& pushed) {
    return std::string(table->CheckPush(pushed.view()).message());
  };
  EXPECT_THAT(refused(Of(9, 1, 2)),
              HasSubstr("row 9 has 1 shows and 2 clicks, expected 0 <= clicks <= shows"));
  EXPECT_THAT(refused(Of(9, -1, -1)), HasSubstr("row 9 has -1 shows"));
  EXPECT_EQ(refused(Of(9, 2, 2)), "");
  RowValues rows{.variable = "emb", .ids = {1}, .content = {1}};
  rows.use = {{.brief = true}};
  EXPECT_TRUE(table->SetRows(rows, 0).ok());
  rows.content = {1, 2};
  EXPECT_THAT(std::string(table->SetRows(rows, 0).message()),
              HasSubstr("2 values in total, expected 1"));
  EXPECT_THAT(std::string(Make("")->SetRows(rows, 0).message()), HasSubstr("accessor=common"));
}

}  // namespace
}  // namespace tandem::pserver
