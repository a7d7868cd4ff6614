// deepfm_dense: the zoo's DeepFM with as many columns as Criteo has, in one process, batch 512.
#include "tests/bench/training_run.h"
#include "trainer/models/models.h"

namespace tandem::bench {

// 39 columns and a million ids, as in click-prediction jobs of Fleet's time; hidden layers as in
// the paper (Guo et al., IJCAI 2017, section 3.1). With Adagrad, the update of a sparse gradient
// equals that of the dense one, for the peer too.
StatusOr<Report> DeepFmDense(const RunOptions& options) {
  constexpr int64_t kBatch = 512, kIds = 1'000'000;
  TD_ASSIGN_OR_RETURN(Program program, trainer::BuildModel("deepfm",
                                                           {{"fields", "39"},
                                                            {"rows", std::to_string(kIds)},
                                                            {"dim", "16"},
                                                            {"hidden", "400,400,400"},
                                                            {"sparse", "1"}},
                                                           kBatch));
  return RunTraining({.program = std::move(program),
                      .classes = 2,
                      .ids = kIds,
                      .optimizer = {"adagrad", {{"epsilon", 1e-8}}},
                      .learning_rate = 0.001,
                      .chunk_steps = 10},
                     options);
}

}  // namespace tandem::bench
