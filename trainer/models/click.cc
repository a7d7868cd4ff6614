// Networks for click prediction on categorical columns, with one id per column. With the argument
// `values`, each id has a value that scales its weight and its vector (sparse records). With
// `dense`, records also have numbers, which only the deep part uses. The weight and the vector of
// an id are one row, which is looked up, sent and updated once, if only servers store the table
// (distributed) or the table counts clicks. With table_rules accessor=ctr, the label marks the
// clicked records.
//   wide_deep: Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016
//   deepfm: Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction",
//   IJCAI 2017
#include "common/tables/table_rules.h"
#include "trainer/models/zoo.h"

namespace tandem::trainer {
namespace {

struct Columns {
  std::string ids, label;
  std::string wide;     // variable [batch, 1]: the sum of one weight per id
  std::string vectors;  // variable [batch, fields, dim]: the vectors of the ids
  std::string deep;     // variable [batch, 1]: output of the deep part
};

// Multiplies the vectors [batch, fields, ...] by the values [batch, fields].
std::string Weighted(graph::ProgramBuilder& builder, const std::string& vectors,
                     const std::string& values) {
  if (values.empty()) return vectors;
  return builder.Layer("elementwise_mul", {{vectors}, {values}}, {{"axis", int64_t{0}}});
}

// Makes a fully connected layer on `x`, and on the numbers `dense` if there are any. With `dense`,
// the layer is the sum of a layer on `x` and a layer on `dense`.
std::string DeepLayer(graph::ProgramBuilder& builder, const std::string& x,
                      const std::string& dense, int64_t units) {
  const std::string out = builder.Fc(x, units);
  return dense.empty() ? out : builder.Add(out, builder.Fc(dense, units));
}

Columns BuildColumns(graph::ProgramBuilder& builder, ModelArgs& args) {
  const int64_t fields = args.Int("fields", 1, 4096);
  const int64_t rows = args.Int("rows", 1, int64_t{1} << 48);
  const int64_t dim = args.Int("dim", 1, 4096);
  const bool sparse = args.Int("sparse", 0, 1) == 1;
  const bool distributed = args.Int("distributed", 0, 1) == 1;
  const auto hidden = args.Ints("hidden", 0, 100, 1, 65536);
  Columns c;
  c.ids = builder.Data("ids", DType::kI64, {fields});
  c.label = builder.Data("label", DType::kI64, {1});
  graph::EmbeddingArgs table{.rows = rows, .dim = 1, .sparse = sparse, .distributed = distributed};
  table.rules = args.Text("table_rules");
  table.init = {graph::Init::kNormal, 0.0f, 0.01f};
  const auto rules = ParseTableRules(table.rules);  // the lookup reports invalid rules
  const bool counted = rules.ok() && rules->counts() > 0;
  if (counted) table.click = c.label;
  std::string values, dense;
  if (args.Int("values", 0, 1) == 1) values = builder.Data("values", DType::kF32, {fields});
  const int64_t numbers = args.Int("dense", 0, 4096);
  if (numbers > 0) dense = builder.Data("dense", DType::kF32, {numbers});
  std::string weights, vectors;  // variables with the weights and vectors of the ids
  const std::string device = args.Text("device");
  if (distributed || counted) {
    table.dim = 1 + dim;
    const std::string rows_of_ids = builder.Embedding(c.ids, table);
    builder.DeviceGuard(device);
    const auto parts = builder.Split(rows_of_ids, /*axis=*/2, {1, dim});
    weights = parts[0];
    vectors = parts[1];
  } else {
    weights = builder.Embedding(c.ids, table);
    table.dim = dim;
    vectors = builder.Embedding(c.ids, table);
    builder.DeviceGuard(device);
  }
  c.wide = builder.SequencePool(Weighted(builder, weights, values), "sum");
  c.vectors = Weighted(builder, vectors, values);
  std::string x = builder.Reshape(c.vectors, {0, fields * dim});
  for (const int64_t units : hidden) {
    x = builder.Relu(DeepLayer(builder, x, dense, units));
    dense.clear();
  }
  c.deep = DeepLayer(builder, x, dense, 1);
  return c;
}

void Finish(graph::ProgramBuilder& builder, const std::string& logits, const std::string& label) {
  builder.Auc(builder.SigmoidLoss(logits, label), label);
}

// Returns the sum of the inner products of all pairs of vectors of different fields. Source of the
// formula, 0.5 sum over dim of ((sum of v)^2 - sum of v^2): Rendle, "Factorization Machines", ICDM
// 2010.
std::string Pairs(graph::ProgramBuilder& builder, const std::string& vectors, int64_t dim) {
  const std::string sum = builder.SequencePool(vectors, "sum");
  const std::string squares =
      builder.SequencePool(builder.Layer("elementwise_mul", {{vectors}, {vectors}}, {}), "sum");
  const std::string minus = builder.Layer("scale", {{squares}}, {{"scale", -1.0}});
  const std::string twice =
      builder.Add(builder.Layer("elementwise_mul", {{sum}, {sum}}, {}), minus);
  const std::string sums = builder.SequencePool(builder.Reshape(twice, {0, dim, 1}), "sum");
  return builder.Layer("scale", {{sums}}, {{"scale", 0.5}});
}

}  // namespace

void BuildWideDeep(graph::ProgramBuilder& builder, ModelArgs& args) {
  const Columns c = BuildColumns(builder, args);
  Finish(builder, builder.Add(c.wide, c.deep), c.label);
}

void BuildDeepFm(graph::ProgramBuilder& builder, ModelArgs& args) {
  const Columns c = BuildColumns(builder, args);
  const std::string pairs = Pairs(builder, c.vectors, args.Int("dim", 1, 4096));
  Finish(builder, builder.Add(builder.Add(c.wide, pairs), c.deep), c.label);
}

}  // namespace tandem::trainer
