// nccl_comm_num and sync_nccl_allreduce: the number of concurrent collectives, and the communicator
// of each. The results are the same.
#include "collective/communicator.h"
#include "gmock/gmock.h"
#include "kernels/exec/comm.h"
#include "tests/support/process_test_util.h"
#include "trainer/modes/collective_mode.h"

namespace tandem::trainer {
namespace {

using ::testing::ElementsAre;

// A collective operation that ends when the test calls End.
class HeldWork final : public collective::Work {
 public:
  Status Wait(Time) override { return OkStatus(); }
  void OnDone(std::function<void(const Status&)> done) override { done_ = std::move(done); }
  bool finished() const override { return ended_; }
  void End() {
    ended_ = true;
    done_(OkStatus());
  }

 private:
  std::function<void(const Status&)> done_;
  bool ended_ = false;
};

struct Log {
  std::vector<std::string> started;  // entries "COMMUNICATOR VARIABLE", in the order of the starts
  std::vector<std::shared_ptr<HeldWork>> works;
};

class FakeCommunicator final : public collective::Communicator {
 public:
  FakeCommunicator(int number, Log& log) : number_(number), log_(log) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  const std::string& name() const override { return name_; }
  Status Health() const override { return OkStatus(); }
  std::shared_ptr<collective::Work> Start(collective::Collective call) override {
    log_.started.push_back(std::to_string(number_) + " " + call.what);
    log_.works.push_back(std::make_shared<HeldWork>());
    return log_.works.back();
  }
  void Abort(const std::string&) override {}

 private:
  const int number_;
  Log& log_;
  const std::string name_ = "fake";
};

// Starts the reductions of the variables a, b, c and d at once.
class Reductions {
 public:
  Reductions(int communicators, bool sync) {
    CollectiveOptions options;
    options.common.ranks = 2;
    options.comm_num = communicators;
    options.one_comm_at_a_time = sync;
    std::vector<std::unique_ptr<collective::Communicator>> all;
    for (int i = 0; i < communicators; ++i)
      all.push_back(std::make_unique<FakeCommunicator>(i, log));
    mode_ = MakeCollectiveMode(options, std::move(all));
    op_.type = "c_allreduce_sum";
    for (int i = 0; i < 4; ++i) {
      exec::CommNode node{.op = &op_, .in = {}, .out = {}, .place = {}};
      node.out = {{std::string(1, static_cast<char>('a' + i)), {DType::kF32, {1}}, &data_[i]}};
      const auto index = mode_.training->Register(node);
      EXPECT_TRUE(index.ok()) << index.status();
      mode_.training->Start(*index, 0, &done_[i]);
    }
  }
  ~Reductions() {
    for (size_t i = 0; i < log.works.size(); ++i) {
      if (!log.works[i]->finished()) log.works[i]->End();  // this call may start the next reduction
    }
    for (exec::CommDone& done : done_) EXPECT_TRUE(done.Wait(SteadyNow()).ok());
    EXPECT_EQ(log.works.size(), 4u);
  }
  Log log;

 private:
  ops::Op op_;
  float data_[4] = {};
  exec::CommDone done_[4];
  TrainingMode mode_;
};

TEST(NcclCommNum, OneAfterTheOtherWhenSync) {
  Reductions r(2, /*sync=*/true);
  EXPECT_THAT(r.log.started, ElementsAre("0 a"));
  r.log.works[0]->End();
  EXPECT_THAT(r.log.started, ElementsAre("0 a", "1 b"));
  r.log.works[1]->End();
  r.log.works[2]->End();
  EXPECT_THAT(r.log.started, ElementsAre("0 a", "1 b", "0 c", "1 d"));
}

TEST(NcclCommNum, ManyAtOnceWhenNot) {
  Reductions three(3, /*sync=*/false);
  EXPECT_THAT(three.log.started, ElementsAre("0 a", "1 b", "2 c", "0 d"));
  // One communicator runs the reductions in a fixed order, with each value of `sync`.
  Reductions one(1, /*sync=*/true);
  EXPECT_THAT(one.log.started, ElementsAre("0 a", "0 b", "0 c", "0 d"));
}

using NcclCommNumJob = JobTest;

TEST_F(NcclCommNumJob, TheSameBits) {
  const std::vector<std::string> launch = {"--mode=collective", "--nproc=2"};
  const std::vector<std::string> args = {"--steps_max=60", "--fuse_all_reduce_ops=false"};
  const std::string want = RunJob("one", launch, args).result.params_sha256;
  for (const std::string sync : {"true", "false"}) {
    auto more = args;
    more.insert(more.end(), {"--nccl_comm_num=3", "--sync_nccl_allreduce=" + sync});
    EXPECT_EQ(RunJob("three-" + sync, launch, more).result.params_sha256, want) << sync;
  }
}

}  // namespace
}  // namespace tandem::trainer
