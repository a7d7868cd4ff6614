// Lookups in the prefetched rows of a batch must give the same results as lookups in the whole
// table.
#include "trainer/ps/row_prefetch.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "kernels/exec/executor.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/distribute/distribute.h"

namespace tandem::trainer {
namespace {

using testing::HasSubstr;

constexpr int64_t kDim = 3;

// Returns a program whose loss is the mean of w[a] * w[b]. The ids a and b are i64 [4, 2].
graph::Program TwoLookups(int64_t height, bool distributed, int64_t padding_idx) {
  graph::Program program;
  const auto add = [&program](ops::Op op) {
    const Status status = graph::AppendOp(program, std::move(op));
    CHECK(status.ok()) << status;
  };
  for (const char* ids : {"a", "b"}) {
    CHECK(program
              .AddVar({.name = ids,
                       .kind = graph::VarKind::kData,
                       .desc = {DType::kI64, {4, 2}},
                       .batch_leading = true})
              .ok());
  }
  CHECK(program
            .AddVar({.name = "w",
                     .kind = graph::VarKind::kParam,
                     .desc = {DType::kF32, {height, kDim}},
                     .init = {graph::Init::kUniform, -1, 1}})
            .ok());
  for (const char* ids : {"a", "b"}) {
    add({.type = "lookup_table",
         .inputs = {{ids}, {"w"}},
         .outputs = {{std::string(ids) + "@rows"}},
         .attrs = {{"is_sparse", true},
                   {"is_distributed", distributed},
                   {"padding_idx", padding_idx},
                   {"squeeze_last", false}}});
  }
  add({.type = "elementwise_mul", .inputs = {{"a@rows"}, {"b@rows"}}, .outputs = {{"ab"}}});
  add({.type = "mean", .inputs = {{"ab"}}, .outputs = {{"loss"}}});
  program.loss = "loss";
  return program;
}

TEST(RowIndexTest, FindsEachRowOnceAndEveryId) {
  std::mt19937_64 random(7);
  RowIndex index;  // one index is reused for all batches
  for (const int64_t height : {int64_t{1}, int64_t{50}, int64_t{1} << 22, INT64_MAX}) {
    std::vector<int64_t> a(300), b(77), all;
    for (auto* piece : {&a, &b}) {
      for (int64_t& id : *piece) all.push_back(id = static_cast<int64_t>(random() >> 1) % height);
    }
    const int64_t padding = height > 1 ? a[5] : -1;
    const std::span<const int64_t> pieces[] = {a, b};
    index.Set(pieces, padding);
    std::set<int64_t> rows(all.begin(), all.end());
    rows.erase(padding);
    EXPECT_THAT(index.rows(), testing::ElementsAreArray(rows));
    ASSERT_EQ(index.places().size(), all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const int32_t place = index.places()[i];
      if (all[i] == padding) {
        EXPECT_EQ(place, -1);
      } else {
        EXPECT_EQ(index.rows().at(static_cast<size_t>(place)), all[i]);
      }
    }
  }
  index.Set({}, -1);
  EXPECT_TRUE(index.rows().empty());
}

// A fixture with two lookups in a table of [50, 3]. Each lookup has 6 ids.
class NextRowsTest : public testing::Test {
 protected:
  NextRowsTest() {
    op_.attrs = {{"padding_idx", int64_t{2}}};
    const auto ids = [](std::vector<int64_t>& memory) {
      return exec::CommTensor{"ids", {DType::kI64, {6}}, memory.data()};
    };
    exec::CommNode node{
        &op_,
        {{"w", {DType::kF32, {50, kDim}}, nullptr}, ids(a_), ids(b_)},
        {{"rows", {DType::kF32, {13, kDim}}, rows_.data()}, ids(index_a_), ids(index_b_)},
        Place{}};
    node_.emplace(node);
  }
  NextBatchHint Next(const std::vector<int64_t>& a, const std::vector<int64_t>& b) const {
    return {{a_.data(), a.data()}, {b_.data(), b.data()}};
  }
  // Calls Ask and returns all its results.
  auto Asked() {
    auto rows = node_->Ask();
    CHECK(rows.ok()) << rows.status();
    return std::make_tuple(rows->ids, rows->to, index_a_, index_b_);
  }

  ops::Op op_;
  std::vector<int64_t> a_ = {7, 2, 11, 0, 7, 5}, b_ = {1, 1, 0, 2, 3, 7}, index_a_ = a_,
                       index_b_ = b_;
  std::vector<float> rows_ = std::vector<float>(13 * kDim);
  std::optional<PrefetchNode> node_;
};

TEST_F(NextRowsTest, AreThoseOfTheNextAsk) {
  (void)Asked();
  const std::vector<int64_t> a = {9, 9, 8, 40, 2, 1}, b = {2, 2, 2, 2, 2, 41};
  const auto next = node_->Foresee(Next(a, b));
  ASSERT_TRUE(next.has_value());
  EXPECT_THAT(next->ids, testing::ElementsAre(1, 8, 9, 40, 41));
  a_ = a;
  b_ = b;
  const auto foreseen = Asked();
  EXPECT_EQ(std::get<0>(foreseen), next->ids);
  EXPECT_EQ(foreseen, Asked());  // the second call finds no prepared rows
}

TEST_F(NextRowsTest, AnotherBatchThanForeseenIsAskedForAllTheSame) {
  const auto expected = Asked();
  const std::vector<int64_t> a = {9, 9, 8, 40, 2, 1};
  ASSERT_TRUE(node_->Foresee(Next(a, b_)).has_value());
  EXPECT_EQ(Asked(), expected);
}

TEST_F(NextRowsTest, OfUnknownDataThereAreNone) {
  const std::vector<int64_t> a = {9, 9, 8, 40, 2, 1}, no_rows = {9, 9, 8, 50, 2, 1};
  const auto expected = Asked();
  EXPECT_FALSE(node_->Foresee({}));
  EXPECT_FALSE(node_->Foresee({{a_.data(), a.data()}}));
  EXPECT_FALSE(node_->Foresee(Next(no_rows, a)));
  EXPECT_EQ(Asked(), expected);
}

struct Outcome {
  float loss = 0;
  std::map<int64_t, std::vector<float>> gradient;  // gradient of each row, by id
};

class RowPrefetchTest : public testing::Test {
 protected:
  // Runs one step with these ids. `rename` returns the id of a row of the gradient.
  template <typename Rename>
  Outcome Run(graph::Program& program, exec::CommHandler* comm, const Rename& rename) {
    exec::Scope scope(device_);
    CHECK(exec::Initialize(program, 5, scope).ok());
    const graph::ParamGrad grad = grads_.at(0);
    auto plan =
        exec::Plan::Make(program, backend_, scope, comm, {.fetch = {"loss", grad.grad, grad.rows}});
    CHECK(plan.ok()) << plan.status();
    const std::vector<int64_t> a = {7, 2, 2, 11, 0, 7, 5, 2}, b = {11, 11, 0, 2, 3, 7, 2, 8};
    std::copy(a.begin(), a.end(), (*plan)->Get("a")->span<int64_t>().begin());
    std::copy(b.begin(), b.end(), (*plan)->Get("b")->span<int64_t>().begin());
    exec::Executor executor(**plan);
    const Status status = executor.Run();
    CHECK(status.ok()) << status;
    Outcome outcome{(*plan)->Get("loss")->span<float>()[0], {}};
    const auto values = (*plan)->Get(grad.grad)->span<float>();
    const auto rows = (*plan)->Get(grad.rows)->span<int64_t>();
    for (size_t i = 0; i < rows.size() && rows[i] >= 0; ++i) {
      const float* row = values.data() + i * kDim;
      outcome.gradient[rename(rows[i])] = {row, row + kDim};
    }
    return outcome;
  }
  graph::Program Trained(int64_t height, bool distributed, int64_t padding_idx) {
    graph::Program program = TwoLookups(height, distributed, padding_idx);
    auto grads = graph::AppendBackward(program, 1.0f);
    CHECK(grads.ok()) << grads.status();
    grads_ = *grads;
    return program;
  }

  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
  std::vector<graph::ParamGrad> grads_;
};

TEST_F(RowPrefetchTest, RowsOfTheBatchDoForTheWholeTable) {
  // One table has 12 rows, the other table is too large for any machine. The step uses the same
  // rows of both tables.
  for (const int64_t height : {int64_t{12}, int64_t{1} << 50}) {
    for (const int64_t padding : {-1, 2}) {
      SCOPED_TRACE(padding);
      graph::Program whole = Trained(12, false, padding);
      const Outcome expected = Run(whole, nullptr, [](int64_t row) { return row; });
      EXPECT_EQ(expected.gradient.size(), padding < 0 ? 7u : 6u);
      EXPECT_EQ(expected.gradient.count(2), padding < 0 ? 1u : 0u);

      graph::Program program = Trained(height, true, padding);
      const auto tables = graph::DistributedTables(program);
      ASSERT_TRUE(tables.ok() && *tables == std::vector<std::string>{"w"}) << tables.status();
      ASSERT_TRUE(graph::PrefetchTables(program, *tables).ok());
      EXPECT_EQ(program.FindVar("w")->kind, graph::VarKind::kRemote);
      const graph::Program before = program;
      ASSERT_TRUE(graph::BindBatch(program, 9).ok()) << "other batches fit too";
      EXPECT_EQ(program.FindVar("w@PREFETCH")->desc.shape[0], padding < 0 ? 36 : 37);
      program = before;
      std::vector<int64_t> asked;
      PrefetchHandler handler(std::chrono::seconds(10), [&](ps::PsRows rows, exec::CommDone* done) {
        asked = rows.ids;
        for (size_t i = 0; i < rows.ids.size(); ++i) {
          exec::FillInitial("w", {graph::Init::kUniform, -1, 1}, {12, kDim}, 5, rows.ids[i] * kDim,
                            {rows.to[i], kDim});
        }
        done->Complete(OkStatus());
      });
      const int64_t first = padding < 0 ? 0 : 1;
      const Outcome found = Run(program, &handler, [&](int64_t row) {
        return asked.at(static_cast<size_t>(row - first));
      });
      EXPECT_TRUE(std::is_sorted(asked.begin(), asked.end()));
      EXPECT_EQ(asked.size(), padding < 0 ? 7u : 6u);
      EXPECT_EQ(found.loss, expected.loss);
      EXPECT_EQ(found.gradient, expected.gradient);
    }
  }
}

TEST_F(RowPrefetchTest, LookupsAndClicksAreCounted) {
  const ops::Op op{.type = "prefetch_rows", .attrs = {{"padding_idx", int64_t{2}}}};
  std::vector<int64_t> a = {7, 2, 7, 5, 7, 2}, b = {5, 9}, a_index(6), b_index(2), labels = {1, 0};
  std::vector<float> rows(9 * kDim);
  const exec::CommNode node{.op = &op,
                            .in = {{"w", {DType::kF32, {12, kDim}}, nullptr},
                                   {"a", {DType::kI64, {2, 3}}, a.data()},
                                   {"b", {DType::kI64, {2, 1}}, b.data()}},
                            .out = {{"rows", {DType::kF32, {9, kDim}}, rows.data()},
                                    {"a_index", {DType::kI64, {2, 3}}, a_index.data()},
                                    {"b_index", {DType::kI64, {2, 1}}, b_index.data()}},
                            .place = {}};
  PrefetchNode prefetch(node);
  const auto asked = prefetch.Ask();
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->ids, (std::vector<int64_t>{5, 7, 9}));
  // Id 5 appears in both records. Id 7 appears twice in the clicked record and once in the other
  // record.
  EXPECT_EQ(prefetch.Counts({"label", {DType::kI64, {2, 1}}, labels.data()}),
            (std::vector<float>{2, 1, 3, 2, 1, 0}));
  std::vector<float> weights = {0, 1};
  EXPECT_EQ(prefetch.Counts({"label", {DType::kF32, {2}}, weights.data()}),
            (std::vector<float>{2, 1, 3, 1, 1, 1}));
}

TEST_F(RowPrefetchTest, ClicksAreDataOfTheBatch) {
  for (const char* click : {"none", "a", "w"}) {
    SCOPED_TRACE(click);
    graph::Program program = TwoLookups(12, true, -1);
    for (ops::Op& op : program.ops) {
      if (op.type != "lookup_table") continue;
      op.attrs["table_rules"] = std::string("accessor=ctr");
      op.attrs["click"] = std::string(click);
    }
    EXPECT_THAT(std::string(graph::DistributedTables(program).status().message()),
                HasSubstr("must be data of the batch, with one number for each record"));
  }
}

TEST_F(RowPrefetchTest, ABadIdIsNamed) {
  graph::Program program = TwoLookups(11, true, -1);
  ASSERT_TRUE(graph::PrefetchTables(program, {"w"}).ok());
  exec::Scope scope(device_);
  PrefetchHandler handler(std::chrono::seconds(10),
                          [](ps::PsRows, exec::CommDone* done) { done->Complete(OkStatus()); });
  auto plan = exec::Plan::Make(program, backend_, scope, &handler, {.fetch = {"loss"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::fill_n((*plan)->Get("a")->span<int64_t>().begin(), 8, 1);
  std::fill_n((*plan)->Get("b")->span<int64_t>().begin(), 8, 11);
  exec::Executor executor(**plan);
  EXPECT_THAT(std::string(executor.Run().message()), HasSubstr("table w: id 11 (element 0"));
}

TEST_F(RowPrefetchTest, WhatIsUsedOtherwiseIsRefused) {
  graph::Program program = TwoLookups(12, true, -1);
  ASSERT_TRUE(
      graph::AppendOp(program, {.type = "mean", .inputs = {{"w"}}, .outputs = {{"other"}}}).ok());
  EXPECT_THAT(std::string(graph::DistributedTables(program).status().message()),
              HasSubstr("table \"w\" has is_distributed, but an operator other than a lookup"));
  program = TwoLookups(12, true, -1);
  program.ops[1].attrs["padding_idx"] = int64_t{3};
  EXPECT_THAT(std::string(graph::DistributedTables(program).status().message()),
              HasSubstr("differ in is_distributed, padding_idx"));
  EXPECT_FALSE(graph::AppendOp(program, {.type = "lookup_table",
                                         .inputs = {{"a"}, {"w"}},
                                         .outputs = {{"x"}},
                                         .attrs = {{"is_distributed", true}}})
                   .ok());
}

}  // namespace
}  // namespace tandem::trainer
