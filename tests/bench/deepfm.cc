// deepfm_dense: training of the zoo's DeepFM in one process with batch 512 and the number of
// columns of Criteo.
#include "tests/bench/training_run.h"
#include "trainer/models/models.h"

namespace tandem::bench {

// There are 39 columns and a million ids, as in click-prediction jobs of Fleet's time. The hidden
// layers are those of the paper (Guo et al., IJCAI 2017, section 3.1). With Adagrad, a sparse
// gradient and a dense gradient give the same update, in Tandem and in the peer.
StatusOr<Report> DeepFmDense(const RunOptions& options) {
  constexpr int64_t kBatch = 512, kIds = 1'000'000;
  TD_ASSIGN_OR_RETURN(graph::Program program, trainer::BuildModel("deepfm",
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
