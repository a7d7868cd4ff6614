// transformer_lm: training of the zoo's language model with 4 layers of width 256 and 8 heads, on 8
// sequences of 128 tokens.
#include "tests/bench/training_run.h"
#include "trainer/models/models.h"

namespace tandem::bench {

StatusOr<Report> TransformerLm(const RunOptions& options) {
  constexpr int64_t kBatch = 8, kTokens = 256;
  TD_ASSIGN_OR_RETURN(
      graph::Program program,
      trainer::BuildModel("transformer_lm",
                          {{"layers", "4"}, {"width", "256"}, {"heads", "8"}, {"sequence", "128"}},
                          kBatch));
  return RunTraining({.program = std::move(program),
                      .classes = kTokens,
                      .ids = kTokens,
                      .optimizer = {"adam", {{"epsilon", 1e-8}}},
                      .learning_rate = 0.0003,
                      .chunk_steps = 4},
                     options);
}

}  // namespace tandem::bench
