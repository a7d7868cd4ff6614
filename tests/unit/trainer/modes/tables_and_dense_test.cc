#include "trainer/modes/tables_and_dense.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/modes/mode_counts.h"
#include "trainer/modes/state/step_rollback.h"

namespace tandem::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;

using Log = std::vector<std::string>;

// A mode that records its calls. Its Join returns `step`.
class FakeMode final : public Membership, public StateKeeper, public StepHooks {
 public:
  FakeMode(std::string name, Log& log) : name_(std::move(name)), log_(log) {}
  TrainingMode mode() { return {.membership = this, .state = this, .steps = this}; }

  StatusOr<int64_t> Join(const graph::Program&, exec::Scope&, const TensorMap&, int64_t,
                         const Stop&) override {
    log_.push_back(name_ + " joins");
    return step;
  }
  StatusOr<int64_t> Recover(const Status& why, const graph::Program&, StepRollback&,
                            const Stop&) override {
    log_.push_back(name_ + " recovers");
    return recovers ? StatusOr<int64_t>(step) : why;
  }
  Status Finish() override { return Logged("finishes"); }
  void Abort(const Status&) override { (void)Logged("aborts"); }
  bool params_are_spread() const override { return spread; }
  StatusOr<TensorMap> State(const graph::Program&, const exec::Scope&, Device& device) override {
    log_.push_back(name_ + " gives state");
    return One(name_ + "@STATE", device);
  }
  StatusOr<TensorMap> Params(const graph::Program&, exec::Scope&, Device& host) override {
    return One(name_, host);
  }
  Status BeginStep(int64_t, float) override { return Logged("begins"); }
  void AddCounts(ModeCounts* counts) const override {
    if (name_ == "tables") counts->ps.pushes = 3;
    if (name_ == "dense") counts->communicators = 1;
  }

  int64_t step = 0;
  bool recovers = true, spread = false;

 private:
  Status Logged(const char* what) {
    log_.push_back(name_ + " " + what);
    return OkStatus();
  }
  static StatusOr<TensorMap> One(const std::string& name, Device& device) {
    TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make({DType::kF32, Shape{1}}, device));
    return TensorMap{{name, tensor}};
  }

  const std::string name_;
  Log& log_;
};

class TablesAndDenseTest : public testing::Test {
 protected:
  TablesAndDense Joined(bool leader = true, bool sync = true) {
    return {{.leader = leader, .sync = sync}, tables_.mode(), dense_.mode(), nullptr};
  }
  StatusOr<int64_t> JoinAt(int64_t of_tables, int64_t of_dense, bool sync = true) {
    tables_.step = of_tables;
    dense_.step = of_dense;
    return Joined(true, sync).Join(program_, scope_, {}, 0, nullptr);
  }

  Log log_;
  FakeMode tables_{"tables", log_}, dense_{"dense", log_};
  CpuDevice device_;
  exec::Scope scope_{device_};
  graph::Program program_;
};

TEST_F(TablesAndDenseTest, TablesComeFirstAndAbortLast) {
  TablesAndDense joined = Joined();
  ASSERT_TRUE(joined.Join(program_, scope_, {}, 0, nullptr).ok());
  ASSERT_TRUE(joined.BeginStep(0, 0.1f).ok());
  ASSERT_TRUE(joined.Finish().ok());
  joined.Abort(Cancelled("stop"));
  EXPECT_THAT(log_,
              ElementsAre("tables joins", "dense joins", "tables begins", "dense begins",
                          "tables finishes", "dense finishes", "dense aborts", "tables aborts"));
}

TEST_F(TablesAndDenseTest, TablesMayBeOneStepAhead) {
  EXPECT_EQ(*JoinAt(7, 7), 7);
  EXPECT_EQ(*JoinAt(8, 7), 7);
  for (const int64_t of_tables : {6, 9}) {
    const auto step = JoinAt(of_tables, 7);
    EXPECT_EQ(step.status().code(), StatusCode::kFailedPrecondition) << of_tables;
    EXPECT_THAT(std::string(step.status().message()), HasSubstr("before step 8 [TD7012]"));
  }
  EXPECT_EQ(*JoinAt(1, 7, /*sync=*/false), 7);
}

TEST_F(TablesAndDenseTest, TablesJoinAgainAfterTheDenseModeRecovered) {
  TablesAndDense joined = Joined();
  ASSERT_TRUE(joined.Join(program_, scope_, {}, 0, nullptr).ok());
  auto point = *StepRollback::Make(program_, scope_, 1, 1, device_);
  log_.clear();
  dense_.step = tables_.step = 4;
  EXPECT_EQ(*joined.Recover(Aborted("lost"), program_, point, nullptr), 4);
  EXPECT_THAT(log_, ElementsAre("dense recovers", "tables joins"));
  log_.clear();
  dense_.recovers = false;
  EXPECT_EQ(joined.Recover(Aborted("lost"), program_, point, nullptr).status().code(),
            StatusCode::kAborted);
  EXPECT_THAT(log_, ElementsAre("dense recovers"));
}

TEST_F(TablesAndDenseTest, OnlyRank0RequestsTheStateOfTables) {
  EXPECT_THAT(*Joined(/*leader=*/true).State(program_, scope_, device_),
              ElementsAre(Key("dense@STATE"), Key("tables@STATE")));
  EXPECT_THAT(*Joined(/*leader=*/false).State(program_, scope_, device_),
              ElementsAre(Key("dense@STATE")));
}

TEST_F(TablesAndDenseTest, DividedParametersLackTheCopiesOfTables) {
  const TensorDesc desc{DType::kF32, Shape{1}};
  ASSERT_TRUE(program_.AddVar({.name = "emb", .kind = graph::VarKind::kParam, .desc = desc}).ok());
  ASSERT_TRUE(scope_.Declare("emb", desc).ok());
  EXPECT_THAT(*Joined().Params(program_, scope_, device_), ElementsAre(Key("dense")));
  dense_.spread = true;
  EXPECT_THAT(*Joined().Params(program_, scope_, device_), ElementsAre(Key("dense"), Key("emb")));
}

TEST_F(TablesAndDenseTest, BothModesCount) {
  ModeCounts counts;
  Joined().AddCounts(&counts);
  EXPECT_EQ(counts.ps.pushes, 3);
  EXPECT_EQ(counts.communicators, 1);
  EXPECT_EQ(counts.recoveries, std::nullopt);
}

}  // namespace
}  // namespace tandem::trainer
