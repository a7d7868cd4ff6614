// fp16_allreduce: a rank sends half as many bytes. The job learns equally well, but gives other
// bits.
#include "collective/communicator.h"
#include "gtest/gtest.h"
#include "kernels/exec/comm.h"
#include "tests/support/process_test_util.h"
#include "trainer/modes/collective_mode.h"

namespace tandem::trainer {
namespace {

// A communicator of rank 0 of two ranks. Both ranks send the same data, so a sum doubles the data.
class Doubling final : public collective::Communicator {
 public:
  struct Done final : collective::Work {
    Status Wait(Time) override { return OkStatus(); }
    void OnDone(std::function<void(const Status&)> done) override { done(OkStatus()); }
    bool finished() const override { return true; }
  };
  int rank() const override { return 0; }
  int size() const override { return 2; }
  const std::string& name() const override { return name_; }
  Status Health() const override { return OkStatus(); }
  std::shared_ptr<collective::Work> Start(collective::Collective call) override {
    bytes += call.count * SizeOf(call.dtype);
    for (size_t i = 0; i < call.count; ++i) {
      if (call.dtype == DType::kF32) static_cast<float*>(call.out)[i] *= 2;
      if (call.dtype != DType::kF16) continue;
      auto& half = static_cast<uint16_t*>(call.out)[i];
      half = F32ToF16(2 * F16ToF32(half));
    }
    return std::make_shared<Done>();
  }
  void Abort(const std::string&) override {}
  size_t bytes = 0;

 private:
  const std::string name_ = "doubling";
};

// Reduces `data`, whose entries are gradient buckets. Returns the number of bytes that the
// communicator sends. Afterwards the values in `data` are doubled.
size_t BytesSent(bool half, std::vector<std::vector<float>>& data,
                 ops::OpRole role = ops::OpRole::kComm) {
  CollectiveOptions options;
  options.common.ranks = 2;
  options.common.half_communication = half;
  std::vector<std::unique_ptr<collective::Communicator>> world;
  world.push_back(std::make_unique<Doubling>());
  const auto& doubling = static_cast<const Doubling&>(*world[0]);
  const auto mode = MakeCollectiveMode(options, std::move(world));
  ops::Op op;
  op.type = "c_allreduce_sum";
  op.role = role;
  exec::CommNode node{.op = &op, .in = {}, .out = {}, .place = {}};
  for (auto& values : data) {
    const auto n = static_cast<int64_t>(values.size());
    node.out.push_back({"v", {DType::kF32, {n}}, values.data()});
  }
  const auto index = mode.training->Register(node);
  EXPECT_TRUE(index.ok()) << index.status();
  exec::CommDone done;
  mode.training->Start(*index, 0, &done);
  EXPECT_TRUE(done.Wait(SteadyNow()).ok());
  return doubling.bytes;
}

TEST(Fp16AllReduce, HalfTheBytes) {
  for (const size_t parts : {1, 3}) {
    std::vector<std::vector<float>> whole(parts, {1.0f, -0.5f, 1.0f / 3, 1e-9f}), half = whole;
    EXPECT_EQ(BytesSent(false, whole), parts * 16);
    EXPECT_EQ(BytesSent(true, half), parts * 8);
    for (size_t p = 0; p < parts; ++p) {
      EXPECT_EQ(whole[p][2], 2.0f / 3);
      EXPECT_EQ(half[p][0], 2.0f);
      EXPECT_EQ(half[p][1], -1.0f);
      EXPECT_NE(half[p][2], 2.0f / 3);
      EXPECT_NEAR(half[p][2], 2.0f / 3, 4e-4f);
      EXPECT_EQ(half[p][3], 0.0f) << "too small for 16 bits";
    }
  }
}

TEST(Fp16AllReduce, GradientsAlone) {
  std::vector<std::vector<float>> statistics = {{1.0f, 2.0f}};
  EXPECT_EQ(BytesSent(true, statistics, ops::OpRole::kForward), 8u) << "those of sync_batch_norm";
}

using Fp16AllReduceJob = JobTest;

TEST_F(Fp16AllReduceJob, LearnsTheSame) {
  const std::vector<std::string> launch = {"--mode=collective", "--nproc=2"};
  const JobRun whole = RunJob("whole", launch, {"--steps_max=100"});
  const JobRun half = RunJob("half", launch, {"--steps_max=100", "--fp16_allreduce=true"});
  EXPECT_NE(half.result.params_sha256, whole.result.params_sha256);
  EXPECT_NEAR(half.result.loss, whole.result.loss, 0.03 * whole.result.loss);
}

}  // namespace
}  // namespace tandem::trainer
