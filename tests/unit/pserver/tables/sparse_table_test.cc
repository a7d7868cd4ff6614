// Compares tables of rows with the same updates of a whole matrix.
#include "pserver/tables/sparse_tables.h"

#include <numeric>

#include "common/base/rng.h"
#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "kernels/exec/scope.h"
#include "pserver/tables/table_reads.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

constexpr int64_t kHeight = 3000, kDim = 7;  // a table with more rows than one chunk has
constexpr uint64_t kSeed = 11;
const graph::Init kInit = {graph::Init::kUniform, -0.5f, 0.5f};

graph::OptimizerSpec Spec(const std::string& type, ops::AttrMap attrs = {}) {
  return {type, std::move(attrs)};
}

// Returns all optimizers that a table supports.
std::vector<graph::OptimizerSpec> Fitting() {
  return {Spec("sgd"),
          Spec("adagrad"),
          Spec("momentum"),
          Spec("momentum", {{"lazy_mode", true}}),
          Spec("adam"),
          Spec("adam", {{"lazy_mode", true}}),
          Spec("adamw", {{"lazy_mode", true}}),
          Spec("adamax"),
          Spec("rmsprop"),
          Spec("decayed_adagrad"),
          Spec("ftrl", {{"lazy_mode", true}}),
          Spec("sgd", {{"l2_decay", 0.01}, {"clip_min", -0.4}, {"clip_max", 0.4}})};
}

TableSpec TableOf(int bucket_begin = 0, int bucket_end = kRowBuckets) {
  return {"emb", Shape{kHeight, kDim}, kInit, kSeed, bucket_begin, bucket_end, {}};
}

struct Gradient {
  std::vector<uint64_t> ids;
  std::vector<float> values;
  RowsGradient view() const { return {ids, values.data()}; }
  // Returns the part of the gradient for the rows of buckets [bucket_begin, bucket_end).
  Gradient Part(int bucket_begin, int bucket_end) const {
    Gradient part;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (RowBucket(ids[i]) < bucket_begin || RowBucket(ids[i]) >= bucket_end) continue;
      part.ids.push_back(ids[i]);
      part.values.insert(part.values.end(), values.begin() + static_cast<int64_t>(i) * kDim,
                         values.begin() + static_cast<int64_t>(i + 1) * kDim);
    }
    return part;
  }
};

// Returns a gradient for a random selection of rows: about one of `every` rows.
Gradient RandomGradient(uint64_t step, uint64_t rank, uint64_t every) {
  const uint64_t key = StreamKey(step * 10 + rank, "gradient");
  Gradient g;
  for (uint64_t id = 0; id < kHeight; ++id) {
    if (Philox(key, id)[0] % every != 0) continue;
    g.ids.push_back(id);
    for (uint64_t c = 0; c < kDim; ++c) g.values.push_back(NormalAt(key, id * kDim + c));
  }
  return g;
}

class SparseTableTest : public testing::Test {
 protected:
  std::unique_ptr<SparseTable> Make(const TableSpec& spec, const graph::OptimizerSpec& optimizer,
                                    ForkJoin* workers = nullptr) {
    auto table = SparseTable::Make(spec, optimizer, backend_, device_, workers);
    CHECK(table.ok()) << table.status();
    return *std::move(table);
  }
  static Status Step(SparseTable& table, std::span<const RowsGradient> gradients,
                     uint64_t version = 0) {
    TD_RETURN_IF_ERROR(table.Begin(version, 0, false));
    return table.Apply(gradients, 0.1f);
  }
  static std::vector<float> Pull(SparseTable& table, std::span<const uint64_t> ids) {
    std::vector<float> values(ids.size() * kDim);
    EXPECT_TRUE(table.Pull(ids, false, values.data()).ok());
    return values;
  }
  static std::vector<float> All(SparseTable& table) {
    std::vector<uint64_t> ids(kHeight);
    std::iota(ids.begin(), ids.end(), 0);
    return Pull(table, ids);
  }

  // Computes the expected result in a single process: applies the sum of the gradients of all ranks
  // to the whole matrix. Returns the matrix.
  std::vector<float> Whole(const graph::OptimizerSpec& optimizer, int steps, uint64_t every) {
    auto update = *UpdateProgram::MakeRows("emb", kHeight, kDim, optimizer, backend_, device_);
    exec::FillInitial("emb", kInit, Shape{kHeight, kDim}, kSeed, 0, update->param());
    for (int step = 0; step < steps; ++step) {
      std::vector<float> sum(kHeight * kDim, 0.0f);
      std::vector<bool> has(kHeight, false);
      for (uint64_t rank : {0, 1}) {
        const Gradient g = RandomGradient(static_cast<uint64_t>(step), rank, every);
        for (size_t i = 0; i < g.ids.size(); ++i) {
          has[g.ids[i]] = true;
          for (size_t c = 0; c < kDim; ++c) {
            sum[g.ids[i] * kDim + c] += g.values[i * kDim + c];
          }
        }
      }
      size_t n = 0;
      for (size_t id = 0; id < kHeight; ++id) {
        if (!has[id]) continue;
        std::copy_n(sum.data() + id * kDim, kDim, update->grad().data() + n * kDim);
        update->rows()[n++] = static_cast<int64_t>(id);
      }
      std::fill(update->rows().begin() + static_cast<int64_t>(n), update->rows().end(), -1);
      CHECK(update->Apply(0.1f).ok());
    }
    return {update->param().begin(), update->param().end()};
  }

  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
};

TEST_F(SparseTableTest, UpdatesHaveTheBitsOfTheWholeMatrix) {
  for (const graph::OptimizerSpec& optimizer : Fitting()) {
    for (const uint64_t every : {2u, 40u}) {
      SCOPED_TRACE(optimizer.type + " every " + std::to_string(every));
      auto table = Make(TableOf(), optimizer);
      for (uint64_t step = 0; step < 4; ++step) {
        const Gradient a = RandomGradient(step, 0, every), b = RandomGradient(step, 1, every);
        const RowsGradient both[] = {a.view(), b.view()};
        ASSERT_TRUE(Step(*table, both).ok());
      }
      EXPECT_EQ(All(*table), Whole(optimizer, 4, every));
      EXPECT_LT(table->rows(), every == 2 ? 3000u : 600u);
    }
  }
}

TEST_F(SparseTableTest, PartsAtOnceHaveTheSameBits) {
  ForkJoin workers("rows", 2);
  for (const graph::OptimizerSpec& optimizer : Fitting()) {
    SCOPED_TRACE(optimizer.type);
    auto table = Make(TableOf(), optimizer, &workers);
    for (uint64_t step = 0; step < 4; ++step) {
      const Gradient a = RandomGradient(step, 0, 2), b = RandomGradient(step, 1, 2);
      const RowsGradient both[] = {a.view(), b.view()};
      ASSERT_TRUE(table->Begin(step, 0, true).ok());
      const std::vector<float> before = All(*table);
      ASSERT_TRUE(table->Apply(both, 0.1f).ok());
      std::vector<float> previous(a.values.size());
      ASSERT_TRUE(table->Pull(a.ids, true, previous.data()).ok());
      for (size_t i = 0; i < previous.size(); ++i) {
        ASSERT_EQ(previous[i], before[a.ids[i / kDim] * kDim + i % kDim]);
      }
    }
    EXPECT_EQ(All(*table), Whole(optimizer, 4, 2));
  }
}

// A push of ids that were pulled before reuses the lookups of the pull. The result must have the
// same bits, whatever happens between pull and push.
TEST_F(SparseTableTest, APullBeforeAPushChangesNothing) {
  ForkJoin workers("rows", 2);
  for (const bool shrinks : {false, true}) {
    TableSpec spec = TableOf();
    if (shrinks) spec.rules = {.shrink_every = 1, .decay = 0.5, .shrink_score = 0.6};
    auto pulled = Make(spec, Spec("adagrad"), &workers), alone = Make(spec, Spec("adagrad"));
    for (uint64_t step = 0; step < 6; ++step) {
      const Gradient a = RandomGradient(step / 2, 0, 2), b = RandomGradient(step, 1, 3);
      EXPECT_EQ(Pull(*pulled, a.ids), Pull(*alone, a.ids));
      for (const Gradient* g : {&b, &a}) {
        const RowsGradient one[] = {g->view()};
        ASSERT_TRUE(Step(*pulled, one, step).ok());
        // Pulls other ids from `alone`, so that its push cannot reuse lookups.
        for (uint64_t i = 0; i < 4; ++i) Pull(*alone, {&i, 1});
        ASSERT_TRUE(Step(*alone, one, step).ok());
      }
    }
    EXPECT_EQ(pulled->rows(), alone->rows());
    EXPECT_EQ(All(*pulled), All(*alone));
  }
}

TEST_F(SparseTableTest, TheNumberOfServersDoesNotMatter) {
  for (const graph::OptimizerSpec& optimizer : {Spec("adagrad"), Spec("adam")}) {
    const std::vector<float> expected = Whole(optimizer, 3, 50);
    for (const int servers : {1, 2, 3}) {
      std::vector<float> all(kHeight * kDim);
      for (int s = 0; s < servers; ++s) {
        const int begin = FirstBucket(s, servers), end = FirstBucket(s + 1, servers);
        auto table = Make(TableOf(begin, end), optimizer);
        for (uint64_t step = 0; step < 3; ++step) {
          const Gradient a = RandomGradient(step, 0, 50).Part(begin, end);
          const Gradient b = RandomGradient(step, 1, 50).Part(begin, end);
          const RowsGradient both[] = {a.view(), b.view()};
          ASSERT_TRUE(Step(*table, both).ok());
        }
        const std::vector<float> mine = All(*table);
        for (uint64_t id = 0; id < kHeight; ++id) {
          if (RowBucket(id) < begin || RowBucket(id) >= end) continue;
          std::copy_n(mine.data() + id * kDim, kDim, all.data() + id * kDim);
        }
      }
      EXPECT_EQ(all, expected) << optimizer.type << " on " << servers;
    }
  }
}

// IdleRowsOf computes how the operators of an optimizer change new rows that get no gradient.
TEST_F(SparseTableTest, RowsThatNeverHadAGradientMoveWhereIdleRowsOfSaysSo) {
  std::vector<graph::OptimizerSpec> specs = Fitting();
  for (const char* type : {"adamw", "ftrl"}) specs.push_back(Spec(type));
  int moving = 0;
  for (const graph::OptimizerSpec& optimizer : specs) {
    auto update = *UpdateProgram::MakeRows("emb", 8, kDim, optimizer, backend_, device_);
    exec::FillInitial("emb", kInit, Shape{8, kDim}, kSeed, 0, update->param());
    const std::vector<float> before(update->param().begin(), update->param().end());
    std::fill(update->rows().begin(), update->rows().end(), -1);
    ASSERT_TRUE(update->Apply(0.1f).ok());
    const std::vector<float> after(update->param().begin(), update->param().end());
    const graph::UntouchedRowPolicy idle = *graph::IdleRowsOf(optimizer, "emb");
    EXPECT_EQ(after != before, idle == graph::UntouchedRowPolicy::kMove) << optimizer.type;
    moving += idle == graph::UntouchedRowPolicy::kMove;
    const auto table = SparseTable::Make(TableOf(), optimizer, backend_, device_);
    EXPECT_EQ(table.ok(), idle != graph::UntouchedRowPolicy::kMove) << optimizer.type;
  }
  EXPECT_EQ(moving, 2);
  for (const graph::OptimizerSpec& whole : {Spec("lamb"), Spec("sgd", {{"clip_norm", 1.0}})}) {
    EXPECT_THAT(
        std::string(SparseTable::Make(TableOf(), whole, backend_, device_).status().message()),
        HasSubstr("norms of complete parameters"));
  }
}

TEST_F(SparseTableTest, PreviousWeightsAreThoseBeforeTheLastStep) {
  for (const graph::OptimizerSpec& optimizer : {Spec("sgd"), Spec("adam")}) {
    auto table = Make(TableOf(), optimizer);
    std::vector<uint64_t> ids(kHeight);
    std::iota(ids.begin(), ids.end(), 0);
    for (uint64_t step = 0; step < 3; ++step) {
      const std::vector<float> before = All(*table);
      const Gradient g = RandomGradient(step, 0, 9);
      const RowsGradient one[] = {g.view()};
      ASSERT_TRUE(table->Begin(step, 0, true).ok());
      ASSERT_TRUE(table->Apply(one, 0.1f).ok());
      std::vector<float> previous(kHeight * kDim);
      ASSERT_TRUE(table->Pull(ids, true, previous.data()).ok());
      EXPECT_EQ(previous, before);
      EXPECT_NE(All(*table), before);
    }
  }
}

TEST_F(SparseTableTest, PagesAndImagesHoldEveryRowWithItsSlots) {
  const graph::OptimizerSpec adam = Spec("adam");
  auto table = Make(TableOf(), adam);
  for (uint64_t step = 0; step < 3; ++step) {
    const Gradient g = RandomGradient(step, 0, 5);
    const RowsGradient one[] = {g.view()};
    ASSERT_TRUE(Step(*table, one).ok());
  }
  // Copies the table in pages to three servers, and by a snapshot to one server. Then applies one
  // more step to the table, to the copy by the snapshot and to one of the three servers.
  const TableSnapshot image = *table->Snapshot(0);
  auto copy = Make(TableOf(), adam);
  for (const auto& [bucket, rows] : image.buckets) ASSERT_TRUE(copy->SetRows(rows, 0).ok());
  for (const auto& [name, value] : image.scalars) ASSERT_TRUE(copy->SetScalar(name, value).ok());
  EXPECT_EQ(copy->rows(), table->rows());
  std::vector<std::unique_ptr<SparseTable>> three;
  for (int s = 0; s < 3; ++s) {
    three.push_back(Make(TableOf(FirstBucket(s, 3), FirstBucket(s + 1, 3)), adam));
    for (const auto& [name, value] : image.scalars) {
      ASSERT_TRUE(three[s]->SetScalar(name, value).ok());
    }
  }
  int pages = 0;
  for (int bucket = 0; bucket < kRowBuckets; ++pages) {
    const TablePage page = *TableReads(*table).Page(bucket, true, 4000, 0);
    ASSERT_EQ(page.slots.size(), 2u);
    const size_t width = kDim * 3;
    for (size_t i = 0; i < page.rows.ids.size(); ++i) {
      const float* content = page.rows.content.data() + i * width;
      const int server = RowBucket(page.rows.ids[i]) * 3 / kRowBuckets;
      const int exact =
          RowBucket(page.rows.ids[i]) >= FirstBucket(server + 1, 3) ? server + 1 : server;
      ASSERT_TRUE(
          three[exact]
              ->SetRows({"emb", {page.rows.ids[i]}, {content, content + width}, false, {}, {}}, 0)
              .ok());
    }
    ASSERT_GT(page.next_bucket, bucket);
    bucket = page.next_bucket;
  }
  EXPECT_GT(pages, 5);
  EXPECT_EQ(three[0]->rows() + three[1]->rows() + three[2]->rows(), table->rows());
  const Gradient g = RandomGradient(7, 0, 5);
  const RowsGradient one[] = {g.view()};
  ASSERT_TRUE(Step(*table, one).ok());
  ASSERT_TRUE(Step(*copy, one).ok());
  EXPECT_EQ(All(*copy), All(*table));
  const Gradient part = g.Part(FirstBucket(1, 3), FirstBucket(2, 3));
  const RowsGradient second[] = {part.view()};
  ASSERT_TRUE(Step(*three[1], second).ok());
  std::vector<float> a(part.ids.size() * kDim), b(a.size());
  ASSERT_TRUE(three[1]->Pull(part.ids, false, a.data()).ok());
  ASSERT_TRUE(table->Pull(part.ids, false, b.data()).ok());
  EXPECT_EQ(a, b);
}

TEST_F(SparseTableTest, BadRowsAreRefusedByName) {
  auto table = Make(TableOf(0, 512), Spec("sgd"));
  const auto message = [&](std::vector<uint64_t> ids) {
    return std::string(table->buckets().CheckServed(ids, true).message());
  };
  std::vector<uint64_t> mine, others;
  for (uint64_t id = 0; id < 100; ++id) (RowBucket(id) < 512 ? mine : others).push_back(id);
  EXPECT_TRUE(table->buckets().CheckServed(mine, true).ok());
  EXPECT_THAT(message({3000}),
              HasSubstr("row 3000 of table emb is out of range, expected 0 to 2999"));
  EXPECT_THAT(message({UINT64_MAX}), HasSubstr("row -1 of table emb"));
  EXPECT_THAT(message({mine[1], mine[0]}), HasSubstr("must ascend"));
  EXPECT_THAT(message({mine[0], mine[0]}), HasSubstr("must ascend"));
  EXPECT_THAT(message({others[0]}), HasSubstr("this server owns buckets 0 to 511"));
  EXPECT_FALSE(table->SetRows({"emb", {mine[0]}, {1, 2}, false, {}, {}}, 0).ok());
  EXPECT_EQ(table->rows(), 0u);
  EXPECT_THAT(std::string(table->SetScalar("emb@beta1_pow", 1).message()), HasSubstr("no slot"));
}

}  // namespace
}  // namespace tandem::pserver
