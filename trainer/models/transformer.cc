// Transformers on bytes or words.
//   transformer_lm: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019
//   (GPT-2). Layers normalise first, position vectors are learned, and attention is causal.
//   bert_base: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
//   Understanding", NAACL 2019. Layers normalise last, masked tokens are predicted, and a sample
//   has one segment.
#include <cmath>

#include "common/base/require.h"
#include "trainer/models/zoo.h"

namespace tandem::trainer {
namespace {

struct TransformerArgs {
  int64_t layers, width, heads, vocabulary, sequence;
  double dropout;
};

constexpr graph::Init kSmall = {graph::Init::kNormal, 0.0f, 0.02f};

TransformerArgs ReadArgs(ModelArgs& args) {
  TransformerArgs t{};
  t.layers = args.Int("layers", 1, 1000);
  t.width = args.Int("width", 1, 65536);
  t.heads = args.Int("heads", 1, 1024);
  t.vocabulary = args.Int("vocabulary", 2, int64_t{1} << 24);
  t.sequence = args.Int("sequence", 1, 65536);
  t.dropout = args.Real("dropout", 0.0, 0.99);
  if (t.width % t.heads != 0) {
    args.Fail(InvalidArgument("model argument width=%d is not a multiple of heads=%d [TD1202]",
                              t.width, t.heads));
    t.heads = 1;
  }
  return t;
}

// Applies multi-head attention. The result has rows [batch * sequence, width].
std::string Attention(graph::ProgramBuilder& b, const TransformerArgs& t, const std::string& x,
                      bool causal) {
  TD_REQUIRE(t.width % t.heads == 0);
  const int64_t dim = t.width / t.heads;
  const std::string qkv = b.Reshape(b.Fc(x, 3 * t.width), {-1, t.sequence, 3, t.heads, dim});
  // Splits the variable [3, batch, heads, sequence, dim] into query, key and value.
  const std::vector<std::string> parts =
      b.Split(b.Transpose(qkv, {2, 0, 3, 1, 4}), /*axis=*/0, /*num=*/3);
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  const std::string scores =
      b.Layer("matmul", {{parts[0]}, {parts[1]}}, {{"trans_y", true}, {"alpha", scale}});
  const std::string weights =
      b.Dropout(b.Layer("softmax", {{scores}}, {{"causal", causal}}), t.dropout);
  const std::string heads = b.Layer("matmul", {{weights}, {parts[2]}}, {});
  const std::string rows = b.Reshape(b.Transpose(heads, {0, 1, 3, 2, 4}), {-1, t.width});
  return b.Dropout(b.Fc(rows, t.width), t.dropout);
}

std::string Mlp(graph::ProgramBuilder& b, const TransformerArgs& t, const std::string& x) {
  return b.Dropout(b.Fc(b.Layer("gelu", {{b.Fc(x, 4 * t.width)}}, {}), t.width), t.dropout);
}

// Returns the sum of the token vectors and position vectors, as rows [batch * sequence, width].
std::string Vectors(graph::ProgramBuilder& b, const TransformerArgs& t, const std::string& ids) {
  const std::string tokens = b.Embedding(ids, {.rows = t.vocabulary, .dim = t.width});
  const std::string places = b.Param("position.w", {t.sequence, t.width}, kSmall);
  return b.Reshape(b.Add(tokens, places), {-1, t.width});
}

}  // namespace

void BuildTransformerLm(graph::ProgramBuilder& builder, ModelArgs& args) {
  const TransformerArgs t = ReadArgs(args);
  const std::string ids = builder.Data("ids", DType::kI64, {t.sequence});
  const std::string label = builder.Data("label", DType::kI64, {t.sequence});
  std::string x = builder.Dropout(Vectors(builder, t, ids), t.dropout);
  for (int64_t i = 0; i < t.layers; ++i) {
    x = builder.Add(x, Attention(builder, t, builder.LayerNorm(x), /*causal=*/true));
    x = builder.Add(x, Mlp(builder, t, builder.LayerNorm(x)));
  }
  const std::string logits = builder.Fc(builder.LayerNorm(x), t.vocabulary);
  const std::string next = builder.Reshape(label, {-1, 1});
  builder.SoftmaxLoss(logits, next);
  builder.Accuracy(logits, next);
}

void BuildBert(graph::ProgramBuilder& builder, ModelArgs& args) {
  const TransformerArgs t = ReadArgs(args);
  const int64_t predicted = args.Int("predicted", 1, t.sequence);
  const std::string ids = builder.Data("ids", DType::kI64, {t.sequence});
  const std::string label = builder.Data("label", DType::kI64, {t.sequence});
  std::string x = builder.Dropout(builder.LayerNorm(Vectors(builder, t, ids)), t.dropout);
  for (int64_t i = 0; i < t.layers; ++i) {
    x = builder.LayerNorm(builder.Add(x, Attention(builder, t, x, /*causal=*/false)));
    x = builder.LayerNorm(builder.Add(x, Mlp(builder, t, x)));
  }
  x = builder.LayerNorm(builder.Layer("gelu", {{builder.Fc(x, t.width)}}, {}));
  const std::string logits = builder.Fc(x, t.vocabulary);
  // The loss is 0 at positions without a prediction. The scale makes the result the mean over the
  // predicted positions.
  const double share = static_cast<double>(predicted) / static_cast<double>(t.sequence);
  builder.SoftmaxLoss(logits, builder.Reshape(label, {-1, 1}), 1 / share);
}

}  // namespace tandem::trainer
