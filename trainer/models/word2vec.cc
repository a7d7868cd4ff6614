// Skip-gram with negative sampling: Mikolov et al., "Distributed Representations of Words and
// Phrases and their Compositionality", NIPS 2013, section 2.2. Initial values as in the authors'
// word2vec.c: small random vectors for words, zeros for the vectors of their neighbours.
#include "trainer/models/zoo.h"

namespace tandem::trainer {

void BuildWord2Vec(graph::ProgramBuilder& builder, ModelArgs& args) {
  const int64_t rows = args.Int("rows", 3, int64_t{1} << 48);
  const int64_t dim = args.Int("dim", 1, 65536);
  const int64_t targets = 1 + args.Int("negatives", 1, 1000);
  const bool sparse = args.Int("sparse", 0, 1) == 1;
  const bool distributed = args.Int("distributed", 0, 1) == 1;
  const std::string center = builder.Data("center", DType::kI64, {targets});
  const std::string target = builder.Data("target", DType::kI64, {targets});
  const std::string label = builder.Data("label", DType::kI64, {targets});
  const float limit = 0.5f / static_cast<float>(dim);
  graph::EmbeddingArgs table{
      .rows = rows, .dim = dim, .sparse = sparse, .distributed = distributed};
  table.rules = args.Text("table_rules");
  table.init = {graph::Init::kUniform, -limit, limit};
  const std::string words = builder.Embedding(center, table);
  table.init = {graph::Init::kConstant};
  const std::string neighbours = builder.Embedding(target, table);
  const std::string products =
      builder.Reshape(builder.Layer("elementwise_mul", {{words}, {neighbours}}, {}), {-1, dim, 1});
  const std::string flat = builder.Reshape(label, {-1, 1});
  builder.Auc(builder.SigmoidLoss(builder.SequencePool(products, "sum"), flat), flat);
}

}  // namespace tandem::trainer
