// mlp40_step: training of a network that is so small that the overhead of the executor dominates a
// step. mlp40_fed and mlp1_fed: the same, and the same network with one layer, with data that each
// step copies in and a loss that it copies out (python_run.py).
#include "kernels/graph/builder.h"
#include "tests/bench/training_run.h"

namespace tandem::bench {
namespace {

// Trains `layers` fully connected layers of 64 x 64, each followed by relu. The softmax loss is
// over the 64 outputs, the batch is 8.
StatusOr<Report> Mlp(int layers, bool fed, const RunOptions& options) {
  constexpr int64_t kWidth = 64, kBatch = 8;
  graph::ProgramBuilder builder("mlp40", kBatch);
  std::string x = builder.Data("img", DType::kF32, {kWidth});
  const std::string label = builder.Data("label", DType::kI64, {1});
  for (int i = 0; i < layers; ++i) x = builder.Fc(x, kWidth, graph::Act::kRelu);
  builder.SoftmaxLoss(x, label);
  TD_ASSIGN_OR_RETURN(graph::Program program, builder.Finish());
  // Xavier initialization, the default of the layers, halves the variance at each relu. After 40
  // layers the outputs would be too small to learn from or to compare. Therefore each weight matrix
  // uses the initialization of He et al., "Delving Deep into Rectifiers", ICCV 2015.
  for (graph::Var& var : program.vars()) {
    if (var.kind == graph::VarKind::kParam && var.desc.shape.rank() == 2)
      var.init = {graph::Init::kMsraNormal};
  }
  return RunTraining({.program = std::move(program),
                      .classes = kWidth,
                      .learning_rate = 1e-3,
                      .chunk_steps = 50,
                      .fed = fed},
                     options);
}

}  // namespace

StatusOr<Report> Mlp40Step(const RunOptions& options) { return Mlp(40, false, options); }
StatusOr<Report> Mlp40Fed(const RunOptions& options) { return Mlp(40, true, options); }
StatusOr<Report> Mlp1Fed(const RunOptions& options) { return Mlp(1, true, options); }

}  // namespace tandem::bench
