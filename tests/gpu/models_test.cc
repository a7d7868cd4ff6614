// Tests that the zoo's training programs have a CUDA kernel for every operator. The test needs no
// device: the plan's memory is host memory that is declared as CUDA memory, and no kernel runs.
#include <gtest/gtest.h>

#include "kernels/exec/plan.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/distribute/dgc.h"
#include "kernels/graph/distribute/sync_batch_norm.h"
#include "kernels/graph/optimizer.h"
#include "tests/ops/module.h"
#include "trainer/models/models.h"

namespace tandem {
namespace {

using Args = std::map<std::string, std::string>;

class NamedCuda final : public Device {
 public:
  Place place() const override { return {PlaceKind::kCuda, 0}; }
  StatusOr<Buffer> Allocate(size_t bytes) override { return host_.Allocate(bytes); }
  Status CopyFromHost(void* dst, const void* src, size_t bytes) override {
    return host_.CopyFromHost(dst, src, bytes);
  }
  Status CopyToHost(void* dst, const void* src, size_t bytes) override {
    return host_.CopyToHost(dst, src, bytes);
  }
  Status Synchronize() override { return OkStatus(); }

 private:
  CpuDevice host_;
};

StatusOr<graph::Program> Training(const std::string& model, const Args& args,
                                  const std::string& optimizer) {
  TD_ASSIGN_OR_RETURN(graph::Program program, trainer::BuildModel(model, args, 4));
  TD_ASSIGN_OR_RETURN(const auto grads, graph::AppendBackward(program, 1.0f));
  graph::OptimizerSpec spec;
  spec.type = optimizer;
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, spec, grads));
  return program;
}

// A handler that accepts every communication operator but transfers nothing.
class NoComm final : public exec::CommHandler {
 public:
  StatusOr<int> Register(const exec::CommNode&) override { return 0; }
  void Start(int, int64_t, exec::CommDone* done) override { done->Complete(OkStatus()); }
  Duration timeout() const override { return std::chrono::seconds(1); }
};

// Plans a program for a CUDA device. Returns the status of the planning.
Status PlanOf(const StatusOr<graph::Program>& program) {
  TD_RETURN_IF_ERROR(program.status());
  const auto module = optest::OpenCudaModule();
  if (!module.ok()) return module.status();
  NamedCuda device;
  exec::Scope scope(device);
  const exec::Backend backend = exec::Backend::Of(PlaceKind::kCuda, **module);
  NoComm comm;
  return exec::Plan::Make(*program, backend, scope, &comm, exec::PlanOptions{}).status();
}

TEST(CudaModels, HaveAKernelForEveryOperator) {
  const Args image = {{"image", "3,32,32"}, {"stem", "3"}};
  const Args text = {{"layers", "2"}, {"width", "16"}, {"heads", "2"}, {"sequence", "8"}};
  const Args click = {{"fields", "3"}, {"rows", "50"}, {"dim", "4"}, {"hidden", "5"}};
  Args sparse = click;
  sparse["sparse"] = "1";
  Args masked = text;
  masked["predicted"] = "2";
  const std::vector<std::pair<std::string, Args>> models = {
      {"softmax", {}},          {"mlp", {}},           {"lenet", {}},
      {"resnet18", image},      {"resnet50", image},   {"mobilenet_v1", {{"image", "3,32,32"}}},
      {"transformer_lm", text}, {"bert_base", masked}, {"vgg16", {{"image", "3,32,32"}}},
      {"deepfm", click},        {"deepfm", sparse},
  };
  for (const auto& [model, args] : models) {
    for (const char* optimizer : {"sgd", "momentum", "adam", "ftrl"}) {
      const Status status = PlanOf(Training(model, args, optimizer));
      EXPECT_TRUE(status.ok()) << model << " with " << optimizer << ": " << status;
    }
  }
}

TEST(CudaModels, SyncBatchNorm) {
  auto program = Training("resnet18", {{"image", "3,32,32"}, {"stem", "3"}}, "sgd");
  ASSERT_TRUE(program.ok()) << program.status();
  const auto found = graph::SyncBatchNorm(*program, 0, 2);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, 20);
  EXPECT_TRUE(PlanOf(program).ok()) << PlanOf(program);
}

TEST(CudaModels, DeepGradientCompression) {
  auto program = trainer::BuildModel("lenet", {}, 4);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto grads = graph::AppendBackward(*program, 1.0f);
  ASSERT_TRUE(grads.ok()) << grads.status();
  graph::OptimizerSpec momentum;
  momentum.type = "momentum";
  const graph::DgcRule rule{.begin_step = 0, .ramp_steps = 1, .sparsity = {0.9f}};
  const auto slots = graph::AppendCompressed(*program, momentum, {*grads}, rule, 2);
  ASSERT_TRUE(slots.ok()) << slots.status();
  EXPECT_FALSE(slots->empty());
  EXPECT_TRUE(PlanOf(program).ok()) << PlanOf(program);
}

// No kernel of a device supports the layout nChw16c, so planning for the device must fail with a
// message that names the operator.
TEST(CudaModels, WhatIsMissingIsNamed) {
  auto program = Training("resnet18", {{"image", "3,32,32"}, {"stem", "3"}}, "sgd");
  ASSERT_TRUE(program.ok()) << program.status();
  for (ops::Op& op : program->ops) {
    if (op.type == "batch_norm") op.attrs["data_layout"] = std::string("nChw16c");
  }
  const Status status = PlanOf(program);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("batch_norm"), std::string::npos) << status;
}

}  // namespace
}  // namespace tandem
