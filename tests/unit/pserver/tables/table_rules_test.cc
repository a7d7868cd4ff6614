// Tests rows that are admitted after several pushes and removed later: the version at which this
// happens, and the values that a pull returns.
#include "common/tables/table_rules.h"

#include "common/base/rng.h"
#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "kernels/exec/scope.h"
#include "pserver/tables/sparse_tables.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

constexpr int64_t kDim = 2;
const graph::Init kInit = {graph::Init::kUniform, -0.5f, 0.5f};
using Floats = std::vector<float>;

class TableRulesTest : public testing::Test {
 protected:
  std::unique_ptr<SparseTable> Make(const std::string& rules, const std::string& type = "sgd") {
    TableSpec spec{"emb", Shape{int64_t{1} << 50, kDim}, kInit, 11, 0, kRowBuckets, {}};
    spec.rules = *ParseTableRules(rules);
    auto table = SparseTable::Make(spec, {type, {}}, backend_, device_);
    CHECK(table.ok()) << table.status();
    return *std::move(table);
  }
  // Updates the table from `version` to version + 1, with a gradient of ones for `ids`.
  static void Update(SparseTable& table, uint64_t version, const std::vector<uint64_t>& ids,
                     bool keep_previous = false, int64_t event_time_ms = 0) {
    const Floats ones(ids.size() * kDim, 1.0f);
    const RowsGradient gradient[] = {{ids, ones.data()}};
    ASSERT_TRUE(table.Begin(version, event_time_ms, keep_previous).ok());
    ASSERT_TRUE(table.Apply(gradient, 0.25f).ok());
  }
  static Floats Row(SparseTable& table, uint64_t id, bool previous = false) {
    Floats row(kDim, NAN);
    EXPECT_TRUE(table.Pull({&id, 1}, previous, row.data()).ok());
    return row;
  }
  // Returns a new row after `updates` updates with a gradient of ones.
  static Floats Fresh(uint64_t id, int updates = 0) {
    Floats row(kDim);
    exec::FillInitial("emb", kInit, {int64_t{1} << 50, kDim}, 11, static_cast<int64_t>(id) * kDim,
                      row);
    for (float& w : row) {
      for (int i = 0; i < updates; ++i) w -= 0.25f;
    }
    return row;
  }

  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
  const Floats zeros_ = Floats(kDim, 0.0f);
};

TEST_F(TableRulesTest, TextsAreReadAndRefusedByName) {
  for (const char* text :
       {"", "admit_count=3", "shrink_every=10 ttl=5", "shrink_every_s=10 ttl_s=5",
        "admit_probability=0.25 shrink_every=10 decay=0.5 shrink_score=0.75"}) {
    const auto rules = ParseTableRules(text);
    ASSERT_TRUE(rules.ok()) << rules.status();
    EXPECT_EQ(ToString(*rules), text);
    EXPECT_EQ(*ParseTableRules(ToString(*rules)), *rules);
  }
  const auto refused = [](const char* text) {
    return std::string(ParseTableRules(text).status().message());
  };
  EXPECT_THAT(refused("admit_cuont=3"), HasSubstr("admit_count"));
  EXPECT_THAT(refused("admit_count=0"), HasSubstr("admit_count=0 is out of range, expected 1"));
  EXPECT_THAT(refused("admit_count=x"),
              HasSubstr("admit_count=\"x\" is not a whole number [TD1103]"));
  EXPECT_THAT(refused("decay=x"), HasSubstr("decay=\"x\" is not a number [TD1103]"));
  EXPECT_THAT(refused("admit_probability=nan"), HasSubstr("admit_probability=nan is out of range"));
  EXPECT_THAT(refused("ttl=5"), HasSubstr("no effect without shrink_every"));
  EXPECT_THAT(refused("ttl_s=5"), HasSubstr("no effect without shrink_every or shrink_every_s"));
  EXPECT_THAT(refused("shrink_every=5 decay=0.5"), HasSubstr("without ttl, ttl_s or shrink_score"));
  EXPECT_THAT(refused("shrink_every_s=5"), HasSubstr("without ttl, ttl_s or shrink_score"));
  EXPECT_THAT(refused("shrink_every=5 shrink_every_s=5 ttl=1"), HasSubstr("are both set"));
  EXPECT_THAT(refused("shrink_every_s=5 ttl=1"), HasSubstr("ttl has no effect with"));
  EXPECT_THAT(refused("shrink_every=5 ttl_s=1"), HasSubstr("ttl_s has no effect with"));
  EXPECT_THAT(refused("shrink_every_s=2 ttl_s=20002"),
              HasSubstr("ttl_s=20002 is more than 10000 times shrink_every_s=2"));
}

TEST_F(TableRulesTest, ARowIsMadeByTheUpdateThatMakesItsCountFull) {
  for (const char* type : {"sgd", "adam"}) {
    SCOPED_TRACE(type);
    auto table = Make("admit_count=3", type);
    Update(*table, 0, {7, 8});
    Update(*table, 1, {7});
    Update(*table, 2, {8, 9});
    EXPECT_EQ(table->rows(), 0u);
    EXPECT_EQ(table->Info().waiting, 3u);
    EXPECT_EQ(table->Info().dropped, 5u);
    EXPECT_EQ(Row(*table, 7), zeros_);
    Update(*table, 3, {7}, true);
    EXPECT_EQ(table->rows(), 1u);
    EXPECT_EQ(table->Info().waiting, 2u);
    EXPECT_EQ(table->Info().dropped, 5u);
    if (type == std::string("sgd")) {
      EXPECT_EQ(Row(*table, 7), Fresh(7, 1));
    }
    EXPECT_NE(Row(*table, 7), zeros_);
    EXPECT_EQ(Row(*table, 7, true), zeros_) << "what trainers saw before this update";
    EXPECT_EQ(Row(*table, 8), zeros_);
  }
}

TEST_F(TableRulesTest, ProbabilityIsDrawnAnewInEachVersionAndTheSameOnEveryServer) {
  constexpr uint64_t kIds = 20000;
  auto table = Make("admit_probability=0.25");
  std::vector<uint64_t> ids(kIds);
  for (uint64_t i = 0; i < kIds; ++i) ids[i] = i * 977;
  Update(*table, 0, ids);
  const auto first = static_cast<double>(table->rows());
  EXPECT_NEAR(first / kIds, 0.25, 0.02);
  Update(*table, 1, ids);
  EXPECT_NEAR(static_cast<double>(table->rows()) / kIds, 1 - 0.75 * 0.75, 0.02);
  EXPECT_EQ(table->Info().dropped, 2 * kIds - static_cast<uint64_t>(first) - table->rows());
  // Updates only some of the rows, in another order. Each of these rows must change as before.
  auto other = Make("admit_probability=0.25");
  std::vector<uint64_t> some;
  for (uint64_t i = 0; i < kIds; i += 3) some.push_back(ids[i]);
  Update(*other, 0, some);
  Update(*other, 1, some);
  for (const uint64_t id : some) ASSERT_EQ(Row(*other, id), Row(*table, id)) << id;
}

// Returns the event time of second `s` in milliseconds.
int64_t At(int64_t s) { return (1'700'000'000 + s) * 1000; }

TEST_F(TableRulesTest, RowsAreRemovedByEventTime) {
  auto table = Make("shrink_every_s=10 ttl_s=20");
  Update(*table, 0, {1}, false, At(0));
  Update(*table, 1, {2}, false, At(9));
  Update(*table, 2, {3}, false, At(10));
  for (uint64_t version = 3; version < 1000; ++version) Update(*table, version, {4}, false, At(19));
  Update(*table, 1000, {4}, false, At(29));
  EXPECT_EQ(table->rows(), 4u) << "the number of updates does not matter";
  Update(*table, 1001, {4}, true, At(30));
  EXPECT_EQ(table->rows(), 2u) << "rows 1 and 2 had no gradient since second 10";
  EXPECT_EQ(Row(*table, 1), Fresh(1));
  EXPECT_EQ(Row(*table, 2, true), Fresh(2, 1)) << "what trainers saw before this update";
  Update(*table, 1002, {4}, false, 0);
  Update(*table, 1003, {4}, false, At(12));
  EXPECT_EQ(table->rows(), 2u) << "an unknown or an earlier time changes nothing";
  Update(*table, 1004, {4}, false, At(50));
  EXPECT_EQ(table->rows(), 1u);
  EXPECT_EQ(table->Info().removed, 3u);
}

TEST_F(TableRulesTest, WaitingRowsAreForgottenByEventTime) {
  auto table = Make("admit_count=2 shrink_every_s=10 ttl_s=10");
  Update(*table, 0, {1}, false, At(0));
  Update(*table, 1, {2}, false, At(10));
  Update(*table, 2, {3}, false, At(20));
  EXPECT_EQ(table->Info().waiting, 2u) << "row 1 waited for 10 s";
}

TEST_F(TableRulesTest, CountsFadeOncePerPeriodOfEventTime) {
  auto table = Make("shrink_every_s=10 decay=0.5 shrink_score=0.2");
  Update(*table, 0, {1}, false, At(0));
  Update(*table, 1, {2}, false, At(5));
  Update(*table, 2, {2}, false, At(6));
  Update(*table, 3, {3}, false, At(20));
  EXPECT_EQ(table->rows(), 3u) << "the score 1 of row 1 has become 0.25";
  Update(*table, 4, {3}, false, At(30));
  EXPECT_EQ(table->rows(), 2u) << "that of row 1 has become 0.125";
  EXPECT_EQ(Row(*table, 1), Fresh(1));
}

TEST_F(TableRulesTest, RowsWithoutGradientsAreRemovedInTime) {
  auto table = Make("shrink_every=4 ttl=5");
  Update(*table, 0, {1, 2});
  Update(*table, 3, {2});
  for (const uint64_t version : {4, 5, 6, 7}) Update(*table, version, {3});
  EXPECT_EQ(table->rows(), 3u) << "looked through before version 4 alone, when row 1 was 4 old";
  Update(*table, 8, {3}, true);
  EXPECT_EQ(table->rows(), 2u);
  EXPECT_EQ(table->Info().removed, 1u);
  EXPECT_EQ(Row(*table, 1), Fresh(1)) << "as if it had never been there";
  EXPECT_EQ(Row(*table, 1, true), Fresh(1, 1)) << "what trainers saw before this update";
  EXPECT_EQ(Row(*table, 2), Fresh(2, 2)) << "5 versions are not more than 5";
  for (const uint64_t version : {9, 10, 11, 12}) Update(*table, version, {1});
  EXPECT_EQ(table->Info().removed, 2u);
  EXPECT_EQ(Row(*table, 1), Fresh(1, 4));
  EXPECT_EQ(Row(*table, 3), Fresh(3, 5)) << "its place was taken by others";
}

TEST_F(TableRulesTest, ARowThatComesAgainInTheUpdateThatRemovesItBeginsAnew) {
  auto table = Make("shrink_every=4 ttl=2");
  Update(*table, 0, {1});
  Update(*table, 4, {1}, true);
  EXPECT_EQ(table->Info().removed, 1u);
  EXPECT_EQ(Row(*table, 1), Fresh(1, 1));
  EXPECT_EQ(Row(*table, 1, true), Fresh(1, 1));
  Update(*table, 5, {1}, true);
  EXPECT_EQ(Row(*table, 1, true), Fresh(1, 1));
  EXPECT_EQ(Row(*table, 1), Fresh(1, 2));
}

// Each version in which a row gets a gradient adds 1 to the score of the row. Scores are halved
// before versions 2, 4, 6 ...
TEST_F(TableRulesTest, FadedScoresDecide) {
  auto table = Make("shrink_every=2 decay=0.5 shrink_score=0.5");
  Update(*table, 0, {1, 2});
  Update(*table, 1, {1});  // scores: 2 of row 1, 1 of row 2
  Update(*table, 2, {});   // scores: 1 of row 1, 0.5 of row 2
  EXPECT_EQ(table->rows(), 2u);
  Update(*table, 3, {});
  Update(*table, 4, {});  // scores: 0.5 of row 1, 0.25 of row 2
  EXPECT_EQ(table->rows(), 1u);
  EXPECT_EQ(Row(*table, 1), Fresh(1, 2));
  EXPECT_EQ(Row(*table, 2), Fresh(2));
  Update(*table, 5, {1});  // score of row 1: 1.5
  Update(*table, 6, {});   // score of row 1: 0.75
  Update(*table, 8, {});   // score of row 1: 0.375
  EXPECT_EQ(table->rows(), 0u);
}

TEST_F(TableRulesTest, WaitingRowsAreForgottenInTimeToo) {
  auto table = Make("admit_count=2 shrink_every=4 ttl=3");
  Update(*table, 0, {1, 2});
  Update(*table, 3, {});
  Update(*table, 4, {});
  EXPECT_EQ(table->Info().waiting, 0u);
  Update(*table, 5, {1});
  EXPECT_EQ(table->rows(), 0u) << "it counts from 1 again";
  Update(*table, 6, {1});
  EXPECT_EQ(table->rows(), 1u);
}

// Restores a snapshot on three servers, and continues with all tables. The rows of the three
// servers must equal the rows of the table that was not restored.
TEST_F(TableRulesTest, ImagesHoldWhatTheRulesCount) {
  const std::string rules = "admit_count=2 shrink_every=3 decay=0.5 shrink_score=0.3 ttl=4";
  const auto ids = [](uint64_t version) {
    std::vector<uint64_t> some;
    for (uint64_t id = 0; id < 300; ++id) {
      if (Philox(version, id)[0] % 4 == 0) some.push_back(id);
    }
    return some;
  };
  auto whole = Make(rules, "adagrad");
  for (uint64_t version = 0; version < 5; ++version) Update(*whole, version, ids(version));
  std::vector<std::unique_ptr<SparseTable>> three;
  for (int s = 0; s < 3; ++s) {
    TableSpec spec = whole->spec();
    spec.bucket_begin = FirstBucket(s, 3);
    spec.bucket_end = FirstBucket(s + 1, 3);
    auto part = SparseTable::Make(spec, {"adagrad", {}}, backend_, device_);
    ASSERT_TRUE(part.ok());
    const TableSnapshot image = *whole->Snapshot(5);
    for (const auto& [bucket, rows] : image.buckets) {
      if (bucket >= spec.bucket_begin && bucket < spec.bucket_end) {
        ASSERT_TRUE((*part)->SetRows(rows, 5).ok());
      }
    }
    three.push_back(*std::move(part));
  }
  for (uint64_t version = 5; version < 30; ++version) {
    Update(*whole, version, version < 20 ? ids(version) : std::vector<uint64_t>());
    size_t rows = 0, waiting = 0;
    for (int s = 0; s < 3; ++s) {
      std::vector<uint64_t> mine;
      for (const uint64_t id : version < 20 ? ids(version) : std::vector<uint64_t>()) {
        const int bucket = RowBucket(id);
        if (bucket >= FirstBucket(s, 3) && bucket < FirstBucket(s + 1, 3)) mine.push_back(id);
      }
      Update(*three[static_cast<size_t>(s)], version, mine);
      rows += three[static_cast<size_t>(s)]->rows();
      waiting += three[static_cast<size_t>(s)]->Info().waiting;
    }
    ASSERT_EQ(rows, whole->rows()) << version;
    ASSERT_EQ(waiting, whole->Info().waiting) << version;
    for (uint64_t id = 0; id < 300; ++id) {
      size_t s = 0;
      while (RowBucket(id) >= FirstBucket(static_cast<int>(s) + 1, 3)) ++s;
      ASSERT_EQ(Row(*three[s], id), Row(*whole, id)) << id;
    }
  }
  EXPECT_GT(whole->Info().removed, 0u);
}

// The versions of a resumed job may begin at another number: in a_sync mode, each server counts
// separate versions.
TEST_F(TableRulesTest, AgesGoOnAtAnotherVersion) {
  auto table = Make("admit_count=2 shrink_every=1 ttl=3");
  Update(*table, 100, {1, 2, 3});
  Update(*table, 101, {1, 2});
  Update(*table, 102, {1});
  const TableSnapshot image = *table->Snapshot(103);
  auto other = Make("admit_count=2 shrink_every=1 ttl=3");
  for (const auto& [bucket, rows] : image.buckets) ASSERT_TRUE(other->SetRows(rows, 7).ok());
  EXPECT_EQ(other->rows(), 2u);
  EXPECT_EQ(other->Info().waiting, 1u);
  Update(*other, 7, {});
  EXPECT_EQ(other->Info().waiting, 1u);
  Update(*other, 8, {});
  EXPECT_EQ(other->rows(), 2u);
  EXPECT_EQ(other->Info().waiting, 0u) << "4 versions old";
  Update(*other, 9, {});
  EXPECT_EQ(other->rows(), 1u);
  Update(*other, 10, {});
  EXPECT_EQ(other->rows(), 0u);
}

}  // namespace
}  // namespace tandem::pserver
