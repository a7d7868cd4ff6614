// lenet_train: training of the zoo's LeNet-5 on 28 x 28 images with batch 64.
#include "tests/bench/training_run.h"
#include "trainer/models/models.h"

namespace tandem::bench {

StatusOr<Report> LenetTrain(const RunOptions& options) {
  constexpr int64_t kBatch = 64, kClasses = 10;
  TD_ASSIGN_OR_RETURN(graph::Program program, trainer::BuildModel("lenet", {}, kBatch));
  return RunTraining({.program = std::move(program),
                      .classes = kClasses,
                      .learning_rate = 0.01,
                      .chunk_steps = 20},
                     options);
}

}  // namespace tandem::bench
