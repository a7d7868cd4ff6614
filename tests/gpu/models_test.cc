// The training programs of the zoo have a CUDA kernel for every operator. No device is needed: the
// plan's memory is host memory that calls itself a CUDA device's, and no kernel is run.
#include <gtest/gtest.h>

#include "kernels/exec/plan.h"
#include "kernels/graph/autodiff.h"
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

// How the plan of a training program of this model ends.
Status PlanOf(const std::string& model, const Args& args, const std::string& optimizer) {
  const auto module = optest::OpenCudaModule();
  if (!module.ok()) return module.status();
  TD_ASSIGN_OR_RETURN(Program program, BuildModel(model, args, 4));
  TD_ASSIGN_OR_RETURN(const auto grads, AppendBackward(program, 1.0f));
  OptimizerSpec spec;
  spec.type = optimizer;
  TD_RETURN_IF_ERROR(AppendOptimizer(program, spec, grads));
  NamedCuda device;
  Scope scope(device);
  const Backend backend = Backend::Of(PlaceKind::kCuda, **module);
  return Plan::Make(program, backend, scope, nullptr, PlanOptions{}).status();
}

TEST(CudaModels, HaveAKernelForEveryOperator) {
  const Args image = {{"image", "3,32,32"}, {"stem", "3"}};
  const Args text = {{"layers", "2"}, {"width", "16"}, {"heads", "2"}, {"sequence", "8"}};
  Args masked = text;
  masked["predicted"] = "2";
  const std::vector<std::pair<std::string, Args>> models = {
      {"softmax", {}},          {"mlp", {}},           {"lenet", {}},
      {"resnet18", image},      {"resnet50", image},   {"mobilenet_v1", {{"image", "3,32,32"}}},
      {"transformer_lm", text}, {"bert_base", masked}, {"vgg16", {{"image", "3,32,32"}}},
  };
  for (const auto& [model, args] : models) {
    for (const char* optimizer : {"sgd", "momentum", "adam"}) {
      const Status status = PlanOf(model, args, optimizer);
      EXPECT_TRUE(status.ok()) << model << " with " << optimizer << ": " << status;
    }
  }
}

TEST(CudaModels, WhatIsMissingIsNamed) {
  const Args args = {{"fields", "3"}, {"rows", "50"}, {"dim", "4"}, {"hidden", "5"}};
  const Status status = PlanOf("deepfm", args, "sgd");
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("there are no kernels on cuda:0 for: auc"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace tandem
