// The image networks of the zoo must be able to learn: a few steps on one batch of synthetic images
// lower the loss.
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/exec/executor.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "trainer/models/models.h"
#include "trainer/reader/synthetic.h"

namespace tandem::reader {
namespace {

constexpr int64_t kBatch = 4;

// Trains `model` for `steps` steps at this learning rate. Returns the loss of each step.
std::vector<float> Losses(const std::string& model, std::map<std::string, std::string> args,
                          const std::vector<int64_t>& image, int steps, float learning_rate) {
  args["image"] = absl::StrFormat("%d,%d,%d", image[0], image[1], image[2]);
  args["classes"] = "10";
  auto program = trainer::BuildModel(model, args, kBatch);
  CHECK(program.ok()) << program.status();
  const auto grads = graph::AppendBackward(*program, 1.0f);
  CHECK(grads.ok()) << grads.status();
  graph::OptimizerSpec optimizer;
  optimizer.type = "momentum";
  CHECK(graph::AppendOptimizer(*program, optimizer, *grads).ok());
  CpuDevice device;
  exec::Scope scope(device);
  CHECK(exec::Initialize(*program, 3, scope).ok());
  exec::PlanOptions options;
  options.threads = 1;
  options.fetch = {program->loss};
  const auto plan = exec::Plan::Make(*program, exec::Backend::Cpu(), scope, nullptr, options);
  CHECK(plan.ok()) << plan.status();

  const auto data = *OpenSynthetic({.image = image, .classes = 10, .samples = kBatch});
  std::vector<uint32_t> ids(kBatch);
  std::iota(ids.begin(), ids.end(), 0u);
  void* const out[] = {(*plan)->Get("img")->data(), (*plan)->Get("label")->data()};
  CHECK(data->Fill(ids, out).ok());
  scope.Find(graph::kLearningRateVar)->span<float>()[0] = learning_rate;
  exec::Executor executor(**plan);
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step) {
    const Status status = executor.Run();
    CHECK(status.ok()) << status;
    losses.push_back((*plan)->Get(program->loss)->span<float>()[0]);
  }
  return losses;
}

void ExpectLearns(const std::string& model, const std::map<std::string, std::string>& args,
                  const std::vector<int64_t>& image) {
  const auto losses = Losses(model, args, image, 8, 0.02f);
  EXPECT_LT(losses.back(), 0.5f * losses.front()) << model;
  EXPECT_GT(losses.front(), 1.0f) << model;
}

TEST(TrainImages, Resnet18) { ExpectLearns("resnet18", {{"stem", "3"}}, {3, 16, 16}); }
TEST(TrainImages, Resnet18OnLargeImages) { ExpectLearns("resnet18", {}, {3, 40, 40}); }
TEST(TrainImages, Resnet50) { ExpectLearns("resnet50", {{"stem", "3"}}, {3, 16, 16}); }
TEST(TrainImages, MobilenetV1) {
  ExpectLearns("mobilenet_v1", {{"stem", "1"}, {"width", "50"}}, {3, 24, 24});
}
TEST(TrainImages, Vgg16) { ExpectLearns("vgg16", {{"hidden", "64"}}, {3, 32, 32}); }

}  // namespace
}  // namespace tandem::reader
