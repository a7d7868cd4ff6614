// resnet18_cifar and resnet50_f32: training of the zoo's ResNets with the passes of a job that
// requests every fusion. ResNet-18 has batches of 64 images of 32 x 32, ResNet-50 batches of 16
// images of 224 x 224.
#include "proto/strategy.pb.h"
#include "tests/bench/training_run.h"
#include "trainer/models/models.h"

namespace tandem::bench {
namespace {

StatusOr<Report> Resnet(const std::string& model, int64_t batch, int64_t classes,
                        std::map<std::string, std::string> args, const RunOptions& options) {
  args["classes"] = std::to_string(classes);
  TD_ASSIGN_OR_RETURN(graph::Program program, trainer::BuildModel(model, args, batch));
  DistributedStrategy strategy;
  strategy.mutable_build_strategy()->set_fuse_bn_act_ops(true);
  strategy.mutable_build_strategy()->set_fuse_all_optimizer_ops(true);
  return RunTraining({.program = std::move(program),
                      .classes = classes,
                      .learning_rate = 0.01,
                      .chunk_steps = 1,
                      .strategy = &strategy},
                     options);
}

}  // namespace

StatusOr<Report> Resnet18Cifar(const RunOptions& options) {
  return Resnet("resnet18", 64, 10, {{"image", "3,32,32"}, {"stem", "3"}}, options);
}

StatusOr<Report> Resnet50F32(const RunOptions& options) {
  return Resnet("resnet50", 16, 1000, {}, options);
}

}  // namespace tandem::bench
