// transformer_lm: training of the zoo's language model with 4 layers of width 256 and 8 heads, on 8
// sequences of 128 tokens. bert_base, bert_base_512: training of the zoo's BERT-base without
// dropout, on 2 sequences of 128 tokens or 1 of 512. Passes are those of a job by default.
#include "proto/strategy.pb.h"
#include "tests/bench/training_run.h"
#include "trainer/models/models.h"

namespace tandem::bench {
namespace {

StatusOr<Report> Bert(int64_t batch, int64_t sequence, const RunOptions& options) {
  constexpr int64_t kTokens = 30522;
  const std::string length = std::to_string(sequence);
  TD_ASSIGN_OR_RETURN(graph::Program program,
                      trainer::BuildModel("bert_base",
                                          {{"vocabulary", std::to_string(kTokens)},
                                           {"sequence", length},
                                           {"predicted", length},
                                           {"dropout", "0"}},
                                          batch));
  const DistributedStrategy strategy;
  return RunTraining({.program = std::move(program),
                      .classes = kTokens,
                      .ids = kTokens,
                      .optimizer = {"adam", {{"epsilon", 1e-8}}},
                      .learning_rate = 0.0001,
                      .chunk_steps = 1,
                      .strategy = &strategy},
                     options);
}

}  // namespace

StatusOr<Report> TransformerLm(const RunOptions& options) {
  constexpr int64_t kBatch = 8, kTokens = 256;
  TD_ASSIGN_OR_RETURN(
      graph::Program program,
      trainer::BuildModel("transformer_lm",
                          {{"layers", "4"}, {"width", "256"}, {"heads", "8"}, {"sequence", "128"}},
                          kBatch));
  const DistributedStrategy strategy;
  return RunTraining({.program = std::move(program),
                      .classes = kTokens,
                      .ids = kTokens,
                      .optimizer = {"adam", {{"epsilon", 1e-8}}},
                      .learning_rate = 0.0003,
                      .chunk_steps = 4,
                      .strategy = &strategy},
                     options);
}

StatusOr<Report> BertBase(const RunOptions& options) { return Bert(2, 128, options); }

StatusOr<Report> BertBase512(const RunOptions& options) { return Bert(1, 512, options); }

}  // namespace tandem::bench
