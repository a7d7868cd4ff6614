// Tests wrong inputs and attributes: every operator must report the error instead of crashing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "tests/ops/bad_op.h"

namespace tandem::optest {
namespace {

TEST(Infer, RefusesBadProducts) {
  const Bad table[] = {
      {"inner dimension", Make("fc", {{F32({4, 5})}, {F32({6, 3})}, {}}), "5 and 6"},
      {"rank of Input", Make("fc", {{F32({4, 5, 1})}, {F32({5, 3})}, {}}), "2 dimensions"},
      {"rank of W", Make("fc", {{F32({4, 5})}, {F32({5})}, {}}), "2 dimensions"},
      {"bias", Make("fc", {{F32({4, 5})}, {F32({5, 3})}, {F32({4})}}), "[3]"},
      {"bias of rank 2", Make("fc", {{F32({4, 5})}, {F32({5, 3})}, {F32({1, 3})}}), "[3]"},
      {"type", Make("fc", {{Of(DType::kI32, {4, 5})}, {F32({5, 3})}, {}}), "i32"},
      {"16 bits", Make("fc", {{F32({4, 5})}, {Of(DType::kF16, {5, 3})}, {}}), "f16"},
      {"bias of 16 bits",
       Make("fc", {{Of(DType::kF16, {4, 5})}, {Of(DType::kF16, {5, 3})}, {Of(DType::kF16, {3})}}),
       "must be f32, not f16"},
      {"result too large", Make("fc", {{F32({1 << 30, 1})}, {F32({1, 1 << 30})}, {}}), "fc"},
      {"gradient's shape", Make("fc_grad", {{F32({4, 5})}, {F32({5, 3})}, {F32({3, 4})}}), "[4,3]"},
      {"inner dimension", Make("fc_grad", {{F32({4, 5})}, {F32({6, 3})}, {F32({4, 3})}}),
       "5 and 6"},
      {"inner dimension", Make("matmul", {{F32({4, 5})}, {F32({4, 5})}}), "5 and 4"},
      {"transposed", Make("matmul", {{F32({4, 5})}, {F32({5, 3})}}, {{"trans_x", true}}),
       "4 and 5"},
      {"transposed", Make("matmul", {{F32({4, 5})}, {F32({5, 3})}}, {{"trans_y", true}}),
       "5 and 3"},
      {"rank", Make("matmul", {{F32({2, 4, 5})}, {F32({5, 3})}}), "same number of dimensions"},
      {"rank", Make("matmul", {{F32({5})}, {F32({5})}}), "same number of dimensions, at least 2"},
      {"batch", Make("matmul", {{F32({2, 4, 5})}, {F32({3, 5, 3})}}), "dimension 0"},
      {"type", Make("matmul", {{F32({4, 5})}, {Of(DType::kI64, {5, 3})}}), "i64"},
      {"bias of 16 bits",
       Make("fc", {{Of(DType::kF16, {4, 5})}, {Of(DType::kF16, {5, 3})}, {Of(DType::kF16, {3})}}),
       "must be f32, not f16"},
      {"result too large", Make("matmul", {{F32({1 << 30, 1})}, {F32({1, 1 << 30})}}), "matmul"},
      {"attribute's type",
       Make("matmul", {{F32({4, 5})}, {F32({5, 3})}}, {{"trans_x", int64_t{1}}}), "trans_x", false},
      {"unknown attribute", Make("fc", {{F32({4, 5})}, {F32({5, 3})}, {}}, {{"axis", int64_t{1}}}),
       "axis", false},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadAttention) {
  const Draw q = F32({2, 5, 3}), k = F32({2, 7, 3}), v = F32({2, 7, 4}), out = F32({2, 5, 4});
  const Draw rows = F32({2, 5}), packed = F32({2, 5, 3, 2, 4}), packed_out = F32({2, 5, 2, 4});
  const auto attention = [](const Draw& q, const Draw& k, const Draw& v, ops::AttrMap attrs = {}) {
    return Make("fused_attention", {{q}, {k}, {v}, {}}, std::move(attrs));
  };
  const auto grad = [&](const Draw& result, const Draw& sums, const Draw& g) {
    return Make("fused_attention_grad", {{q}, {k}, {v}, {}, {result}, {sums}, {g}});
  };
  const Bad table[] = {
      {"K alone", Make("fused_attention", {{q}, {k}, {}, {}}), "K and V must be given both"},
      {"V alone", Make("fused_attention", {{q}, {}, {v}, {}}), "K and V must be given both"},
      {"ranks", attention(q, F32({7, 3}), v), "but have 3, 2 and 3"},
      {"rank", attention(F32({5}), F32({5}), F32({5})), "at least 2"},
      {"batch", attention(q, F32({3, 7, 3}), v), "dimension 0 is 2 in Q, 3 in K and 2 in V"},
      {"length of rows", attention(q, F32({2, 7, 4}), v), "but have 3 and 4"},
      {"rows", attention(q, k, F32({2, 6, 4})), "but have 7 and 6"},
      {"no rows", attention(q, F32({2, 0, 3}), F32({2, 0, 4})), "K has 0 rows"},
      {"causal", attention(k, q, F32({2, 5, 4}), {{"causal", true}}), "there are 5 and 7"},
      {"types", attention(q, k, Of(DType::kBF16, {2, 7, 4})), "bf16"},
      {"type", attention(Of(DType::kI64, {2, 5, 3}), k, v), "i64"},
      {"share", attention(q, k, v, {{"dropout_prob", 1.0}}), "dropout_prob=1"},
      {"no position", attention(q, k, v, {{"dropout_prob", 0.5}}), "needs the input Position"},
      {"position", Make("fused_attention", {{q}, {k}, {v}, {Ids({3}, 9)}}), "i64[4]"},
      {"packed rank", Make("fused_attention", {{q}, {}, {}, {}}), "[batch, t, 3, heads, dim]"},
      {"packed parts", Make("fused_attention", {{F32({2, 5, 2, 2, 4})}, {}, {}, {}}),
       "[batch, t, 3, heads, dim]"},
      {"packed rows", Make("fused_attention", {{F32({2, 0, 3, 2, 4})}, {}, {}, {}}),
       "K has 0 rows"},
      {"result", grad(F32({2, 5, 3}), rows, F32({2, 5, 3})), "shape of the operator's result"},
      {"sums", grad(out, F32({2, 5, 1}), out), "one element for each row"},
      {"gradient", grad(out, rows, F32({2, 5, 3})), "must have the same type"},
      {"gradient of K",
       Make("fused_attention_grad",
            {{packed}, {}, {}, {}, {packed_out}, {F32({2, 2, 5})}, {packed_out}}),
       "Q@GRAD is the only gradient"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadElementwise) {
  const Bad table[] = {
      {"shapes", Make("elementwise_add", {{F32({4, 5})}, {F32({4})}}), "5"},
      {"axis", Make("elementwise_add", {{F32({4, 5})}, {F32({4})}}, {{"axis", int64_t{1}}}),
       "axis=1"},
      {"axis", Make("elementwise_mul", {{F32({4, 5})}, {F32({5})}}, {{"axis", int64_t{2}}}),
       "axis=2"},
      {"axis", Make("elementwise_mul", {{F32({4, 5})}, {F32({5})}}, {{"axis", int64_t{-2}}}),
       "axis=-2"},
      {"axis",
       Make("elementwise_add", {{F32({4, 5})}, {F32({5})}},
            {{"axis", std::numeric_limits<int64_t>::max()}}),
       "axis="},
      {"Y larger", Make("elementwise_add", {{F32({5})}, {F32({4, 5})}}), "dimensions"},
      {"type", Make("elementwise_add", {{F32({5})}, {Of(DType::kI64, {5})}}), "i64"},
      {"gradient's shape", Make("elementwise_mul_grad", {{F32({4, 5})}, {F32({5})}, {F32({5, 4})}}),
       "must have the same type"},
      {"gradient's shape", Make("elementwise_add_grad", {{F32({4, 5})}, {F32({5})}, {F32({20})}}),
       "must have the same type"},
      {"type", Make("relu", {{Of(DType::kI32, {5})}}), "i32"},
      {"gradient's shape", Make("relu_grad", {{F32({5})}, {F32({6})}}), "must have the same type"},
      {"type", Make("scale", {{Of(DType::kU8, {5})}}), "u8"},
      {"types", Make("elementwise_add", {{F32({4})}, {Of(DType::kBF16, {4})}}), "must be f32"},
      {"attribute's type", Make("scale", {{F32({5})}}, {{"scale", int64_t{2}}}), "scale", false},
      {"nothing to average", Make("mean", {{F32({0, 3})}}), "expected at least 1"},
      {"gradient's shape", Make("mean_grad", {{F32({5})}, {F32({5})}}), "[1]"},
      {"nothing to add", Make("sum", {{}}), "at least one"},
      {"shapes", Make("sum", {{F32({5}), F32({5}), F32({1, 5})}}), "must have the same type"},
      {"types", Make("sum", {{F32({5}), Of(DType::kI32, {5})}}), "must have the same type"},
      {"elements", Make("reshape", {{F32({4, 5})}}, {{"shape", Ints{3, 7}}}), "20"},
      {"does not divide", Make("reshape", {{F32({4, 5})}}, {{"shape", Ints{3, -1}}}), "20"},
      {"two computed", Make("reshape", {{F32({4, 5})}}, {{"shape", Ints{-1, -1}}}), "shape[1]"},
      {"negative", Make("reshape", {{F32({4, 5})}}, {{"shape", Ints{-4, -5}}}), "shape[0]"},
      {"nothing to copy", Make("reshape", {{F32({4, 5})}}, {{"shape", Ints{4, 5, 0}}}), "shape[2]"},
      {"overflow",
       Make("reshape", {{F32({4, 5})}},
            {{"shape", Ints{int64_t{1} << 32, int64_t{1} << 32, int64_t{1} << 32}}}),
       "shape"},
      {"rank", Make("reshape", {{F32({1})}}, {{"shape", Ints(9, 1)}}), "shape"},
      {"missing", Make("reshape", {{F32({4, 5})}}), "shape", false},
      {"attribute's type", Make("reshape", {{F32({4, 5})}}, {{"shape", std::string("20")}}),
       "shape", false},
      {"elements", Make("reshape_grad", {{F32({4, 5})}, {F32({4, 4})}}), "elements"},
      {"missing", Make("fill_constant", {}), "shape", false},
      {"attribute's type", Make("fill_constant", {}, {{"shape", 3.0}}), "shape", false},
      {"negative", Make("fill_constant", {}, {{"shape", Ints{-1}}}), "shape"},
      {"too large", Make("fill_constant", {}, {{"shape", Ints{1 << 25, 1 << 25}}}), "shape"},
      {"type", Make("fill_constant", {}, {{"shape", Ints{1}}, {"dtype", std::string("f64")}}),
       "f64"},
      {"value outside the type",
       Make("fill_constant", {},
            {{"shape", Ints{1}}, {"dtype", std::string("u8")}, {"value", 256.0}}),
       "value"},
      {"value outside the type",
       Make("fill_constant", {},
            {{"shape", Ints{1}}, {"dtype", std::string("i64")}, {"value", 1e300}}),
       "value"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadLossScaling) {
  const Draw one = F32({1});
  const std::vector<std::vector<Draw>> four = {{one}, {one}, {one}, {one}};
  const Bad table[] = {
      {"Scale", Make("check_finite_and_unscale", {{F32({2})}, {F32({4})}}), "Scale"},
      {"no X", Make("check_finite_and_unscale", {{one}, {}}), "at least one"},
      {"type", Make("check_finite_and_unscale", {{one}, {Of(DType::kI32, {4})}}), "i32"},
      {"fewer Out", Make("check_finite_and_unscale", {{one}, {F32({4}), F32({4})}}),
       "outputs Out must equal the number of inputs X"},
      {"BadSteps", Make("update_loss_scaling", {{one}, {one}, {one}, {F32({2})}}), "BadSteps"},
      {"growth", Make("update_loss_scaling", four, {{"incr_ratio", 0.5}}), "incr_ratio=0.5"},
      {"shrinking", Make("update_loss_scaling", four, {{"decr_ratio", 1.5}}), "decr_ratio=1.5"},
      {"steps", Make("update_loss_scaling", four, {{"incr_every_n_steps", int64_t{0}}}),
       "incr_every_n_steps=0"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadRegimes) {
  const Draw one = F32({1}), four = F32({4}), words = Of(DType::kI32, {2, 5});
  const std::vector<std::vector<Draw>> ones(5, {one}), compress = {{four}, {four}, {four}, {one}};
  const std::vector<std::vector<Draw>> buffer = {{four}, {four}, {four}, {four},
                                                 {one},  {one},  {one}};
  const auto with = [](std::vector<std::vector<Draw>> slots, size_t i, const Draw& other) {
    slots[i] = {other};
    return slots;
  };
  const Bad table[] = {
      {"n", Make("every_nth", {{one}, {}}, {{"n", int64_t{0}}}), "from 1"},
      {"Counter", Make("every_nth", {{F32({2})}, {}}), "Counter"},
      {"N", Make("every_nth", {{one}, {F32({2})}}), "N must"},
      {"Loss", Make("adaptive_steps", with(ones, 0, four)), "Loss"},
      {"Steps", Make("adaptive_steps", with(ones, 4, four)), "Steps"},
      {"first", Make("adaptive_steps", ones, {{"init_k_steps", int64_t{17}}}), "init_k_steps=17"},
      {"gradients", Make("buffered_momentum", buffer, {{"gradients", int64_t{0}}}), "at least 1"},
      {"Sum", Make("buffered_momentum", with(buffer, 3, one)), "Sum"},
      {"Weight", Make("buffered_momentum", with(buffer, 4, four)), "Weight"},
      {"Velocity", Make("dgc_compress", with(compress, 1, one)), "Velocity"},
      {"Residual", Make("dgc_compress", with(compress, 2, one)), "Residual"},
      {"Sparsity", Make("dgc_compress", with(compress, 3, four)), "Sparsity"},
      {"no room", Make("dgc_compress", compress, {{"capacity", int64_t{0}}}), "capacity=0"},
      {"too much room", Make("dgc_compress", compress, {{"capacity", int64_t{5}}}), "capacity=5"},
      {"type", Make("dgc_update", {{four}, {Of(DType::kI64, {2, 5})}, {one}}), "i32"},
      {"words", Make("dgc_update", {{four}, {Of(DType::kI32, {2, 4})}, {one}}), "odd"},
      {"rank", Make("dgc_update", {{four}, {Of(DType::kI32, {5})}, {one}}), "2 dimensions"},
      {"LearningRate", Make("dgc_update", {{four}, {words}, {four}}), "LearningRate"},
      {"no X", Make("c_allgather_selected", {{}}), "at least one"},
      {"X", Make("c_allgather_selected", {{words}}), "X must have 1 dimension"},
      {"X's type", Make("c_allgather_selected", {{Of(DType::kF32, {5})}}), "i32"},
      {"X's words", Make("c_allgather_selected", {{Of(DType::kI32, {4})}}), "odd"},
      {"ranks", Make("c_allgather_selected", {{Of(DType::kI32, {5})}}, {{"ranks", int64_t{0}}}),
       "ranks=0"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadFused) {
  const auto body = [](ops::Op inner) {
    OpCase c = Make("fused_elementwise", {{F32({4}), F32({5})}});
    c.body = {std::move(inner)};
    return c;
  };
  const ops::Op relu = {.type = "relu", .inputs = {{"in0"}}, .outputs = {{"out0"}}};
  const ops::Op mean = {.type = "mean", .inputs = {{"in0"}}, .outputs = {{"out0"}}};
  ops::Op elsewhere = relu, other = relu, slots = relu, condition = relu;
  elsewhere.inputs = {{"nowhere"}};
  other.outputs = {{"aside"}};
  slots.inputs = {};
  condition.run_if = "in0";
  OpCase two = body(relu);
  two.body.push_back({.type = "relu", .inputs = {{"in1"}}, .outputs = {{"in0"}}});
  const Bad table[] = {
      {"no body", Make("fused_elementwise", {{F32({4})}}), "body is missing", false},
      {"no elementwise operator", body(mean), "mean is not elementwise"},
      {"from nowhere", body(elsewhere), "\"nowhere\""},
      {"output not written", body(other), "no operator of the body writes \"out0\""},
      {"slots", body(slots), "0 input slots", false},
      {"condition", body(condition), "an operator of the body has a condition", false},
      {"shapes", two, "different shapes"},
      {"functors",
       Make("fused_elemwise_activation", {{F32({4})}, {F32({4})}},
            {{"functors", std::string("elementwise_add,gelu")}}),
       "gelu"},
      {"shapes", Make("fused_elemwise_activation", {{F32({4})}, {F32({5})}}), "is 4"},
      {"gradient", Make("fused_elemwise_activation_grad", {{F32({4})}, {F32({4})}, {F32({5})}}),
       "must have the same type"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadRows) {
  const ops::AttrMap causal = {{"causal", true}};
  const ops::AttrMap axis = {{"begin_norm_axis", int64_t{2}}};
  const auto norm = [](const Shape& x, const Shape& scale, const ops::AttrMap& attrs) {
    return Make("layer_norm", {{F32(x)}, {F32(scale)}, {}}, attrs);
  };
  const Bad table[] = {
      {"position", Make("dropout", {{F32({5})}, {F32({4})}}), "Position must be i64[4]"},
      {"share", Make("dropout", {{F32({5})}, {Ids({4}, 9)}}, {{"dropout_prob", 1.0}}),
       "dropout_prob=1"},
      {"type", Make("gelu", {{Of(DType::kI32, {5})}}), "i32"},
      {"gradient's shape", Make("gelu_grad", {{F32({5})}, {F32({6})}}), "must have the same type"},
      {"gradient's shape", Make("tanh_grad", {{F32({5})}, {F32({6})}}), "Out and Out@GRAD"},
      {"empty rows", Make("softmax", {{F32({3, 0})}}), "last dimension"},
      {"no rows", Make("softmax", {{F32({})}}), "last dimension"},
      {"no matrix", Make("softmax", {{F32({3})}}, causal), "causal"},
      {"too high", Make("softmax", {{F32({2, 4, 3})}}, causal), "causal"},
      {"gradient's shape", Make("softmax_grad", {{F32({3, 2})}, {F32({2, 3})}}),
       "must have the same type"},
      {"axis", norm({4, 5}, {5}, axis), "begin_norm_axis=2"},
      {"scale", norm({4, 5}, {4}, {}), "[5]"},
      {"epsilon", norm({4, 5}, {5}, {{"epsilon", 0.0}}), "epsilon"},
      {"empty rows", Make("layer_norm", {{F32({4, 0})}, {}, {}}), "expected at least 1"},
      {"mean", Make("layer_norm_grad", {{F32({4, 5})}, {}, {F32({5})}, {F32({4})}, {F32({4, 5})}}),
       "[4]"},
      {"dimension", Make("reduce_sum", {{F32({4, 5})}}, {{"dim", Ints{2}}}), "dim: 2"},
      {"twice", Make("reduce_max", {{F32({4, 5})}}, {{"dim", Ints{1, -1}}}), "dim: -1"},
      {"nothing", Make("reduce_mean", {{F32({4, 0})}}, {{"dim", Ints{1}}}),
       "no elements to reduce"},
      {"gradient's shape", Make("reduce_sum_grad", {{F32({4, 5})}, {F32({5})}}, {{"dim", Ints{1}}}),
       "[4]"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadLayouts) {
  const auto slice = [](const Ints& axes, const Ints& starts, const Ints& ends) {
    return Make("slice", {{F32({4, 5})}}, {{"axes", axes}, {"starts", starts}, {"ends", ends}});
  };
  const auto split = [](size_t outputs, ops::AttrMap attrs) {
    OpCase c = Make("split", {{F32({6, 4})}}, std::move(attrs));
    c.many_outputs = outputs;
    return c;
  };
  const Bad table[] = {
      {"permutation", Make("transpose", {{F32({4, 5})}}, {{"axis", Ints{0, 0}}}), "axis=[0,0]"},
      {"permutation", Make("transpose", {{F32({4, 5})}}, {{"axis", Ints{1}}}), "axis=[1]"},
      {"attribute's type", Make("transpose", {{F32({4, 5})}}, {{"axis", 1.0}}), "axis", false},
      {"nothing", Make("concat", {{}}), "at least one"},
      {"axis", Make("concat", {{F32({4, 5})}}, {{"axis", int64_t{2}}}), "axis=2"},
      {"shapes", Make("concat", {{F32({4, 5}), F32({4, 6})}}), "dimension 0"},
      {"types", Make("concat", {{F32({4}), Of(DType::kI64, {4})}}), "must have the same type"},
      {"index", Make("concat_grad", {{F32({4})}, {F32({4})}}, {{"index", int64_t{1}}}), "index=1"},
      {"total", Make("concat_grad", {{F32({5})}, {F32({4})}}), "f32[4]"},
      {"parts", split(4, {{"num", int64_t{4}}}), "num=4"},
      {"count", split(2, {{"num", int64_t{3}}}), "num=3"},
      {"sum", split(2, {{"sections", Ints{2, 3}}}), "have the sum 5"},
      {"size", split(2, {{"sections", Ints{-1, 7}}}), "-1"},
      {"given",
       Make("split_grad", {{F32({4})}, {F32({2})}},
            {{"num", int64_t{2}}, {"outputs", int64_t{2}}, {"given", Ints{2}}}),
       "given: 2"},
      {"lengths", slice({0}, {0, 1}, {2}), "length"},
      {"axis", slice({2}, {0}, {2}), "axes: 2"},
      {"order", slice({0}, {3}, {1}), "before its start"},
      {"gradient's shape",
       Make("slice_grad", {{F32({4, 5})}, {F32({4, 5})}},
            {{"axes", Ints{0}}, {"starts", Ints{1}}, {"ends", Ints{3}}}),
       "f32[2,5]"},
      {"name", Make("cast", {{F32({4})}}, {{"out_dtype", std::string("f64")}}), "out_dtype"},
      {"gradient's shape", Make("cast_grad", {{F32({4})}, {F32({5})}}), "same shape"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadLosses) {
  const std::string xent = "softmax_with_cross_entropy";
  const Bad table[] = {
      {"rank", Make(xent, {{F32({4, 5, 1})}, {Labels(4, 5)}}), "2 dimensions"},
      {"labels' rows", Make(xent, {{F32({4, 5})}, {Labels(3, 5)}}), "i64[4,1]"},
      {"labels' rank", Make(xent, {{F32({4, 5})}, {Of(DType::kI64, {4})}}), "i64[4,1]"},
      {"labels' type", Make(xent, {{F32({4, 5})}, {Of(DType::kI32, {4, 1})}}), "i64[4,1]"},
      {"soft labels", Make(xent, {{F32({4, 5})}, {F32({4, 5})}}), "i64[4,1]"},
      {"no classes", Make(xent, {{F32({4, 0})}, {Labels(4, 1)}}), "0 classes"},
      {"type", Make(xent, {{Of(DType::kF16, {4, 5})}, {Labels(4, 5)}}), "f16"},
      {"gradient's shape", Make(xent + "_grad", {{F32({4, 5})}, {Labels(4, 5)}, {F32({4})}}),
       "[4,1]"},
      {"labels' rows", Make("accuracy", {{F32({4, 5})}, {Labels(5, 5)}}), "i64[4,1]"},
      {"k", Make("accuracy", {{F32({4, 5})}, {Labels(4, 5)}}, {{"k", int64_t{6}}}), "k=6"},
      {"k", Make("accuracy", {{F32({4, 5})}, {Labels(4, 5)}}, {{"k", int64_t{0}}}), "k=0"},
      {"labels", Make("sigmoid_cross_entropy", {{F32({4, 1})}, {F32({4, 1})}}), "i64[4,1]"},
      {"gradient's shape",
       Make("sigmoid_cross_entropy_grad", {{F32({4, 1})}, {Labels(4, 2)}, {F32({4})}}),
       "must have the same type"},
      {"pool", Make("sequence_pool", {{F32({2, 3, 4})}, {}}, {{"pooltype", std::string("mean")}}),
       "mean"},
      {"lengths", Make("sequence_pool", {{F32({2, 3, 4})}, {Ids({3}, 2)}}), "i64[2]"},
      {"rank", Make("sequence_pool", {{F32({2, 3})}, {}}), "3 dimensions"},
      {"columns", Make("auc", {{F32({4, 3})}, {Labels(4, 2)}, {Ids({9}, 2)}, {Ids({9}, 2)}}),
       "one or two"},
      {"buckets", Make("auc", {{F32({4, 1})}, {Labels(4, 2)}, {Ids({9}, 2)}, {Ids({8}, 2)}}),
       "must have the same type"},
      {"rank", Make("accuracy", {{F32({4})}, {Labels(4, 5)}}), "2 dimensions"},
      {"nothing to count", Make("accuracy", {{F32({0, 5})}, {Labels(0, 5)}}),
       "expected at least 1"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadEmbeddings) {
  const Draw ids = Ids({4, 2}, 9), w = F32({9, 3});
  const Bad table[] = {
      {"ids' type", Make("lookup_table", {{F32({4})}, {w}}), "Ids must have element type i64"},
      {"table's type", Make("lookup_table", {{ids}, {Of(DType::kF16, {9, 3})}}), "f16"},
      {"table's rank", Make("lookup_table", {{ids}, {F32({9})}}), "2 dimensions"},
      {"padding", Make("lookup_table", {{ids}, {w}}, {{"padding_idx", int64_t{9}}}),
       "padding_idx=9"},
      {"padding", Make("lookup_table", {{ids}, {w}}, {{"padding_idx", int64_t{-2}}}),
       "padding_idx=-2"},
      {"no click",
       Make("lookup_table", {{ids}, {w}},
            {{"is_sparse", true},
             {"is_distributed", true},
             {"table_rules", std::string("accessor=ctr")}}),
       "accessor=ctr needs click"},
      {"click alone", Make("lookup_table", {{ids}, {w}}, {{"click", std::string("label")}}),
       "click goes with table_rules accessor=ctr alone"},
      {"rank of Ids", Make("lookup_table", {{Ids({1, 1, 1, 1, 1, 1, 1, 2}, 9)}, {w}}),
       "too many dimensions"},
      {"gradient's shape", Make("lookup_table_grad", {{ids}, {w}, {F32({8, 3})}}), "[4,2,3]"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

TEST(Infer, RefusesBadOptimizers) {
  const Draw p = F32({4, 5}), q = F32({5, 4}), one = F32({1});
  const Bad table[] = {
      {"gradient", Make("sgd", {{p}, {q}, {one}, {}}), "must have the same type"},
      {"learning rate", Make("sgd", {{p}, {p}, {F32({2})}, {}}), "[1]"},
      {"learning rate", Make("sgd", {{p}, {p}, {F32({})}, {}}), "[1]"},
      {"type", Make("sgd", {{Of(DType::kF16, {4})}, {Of(DType::kF16, {4})}, {one}, {}}), "f16"},
      {"gradient", Make("momentum", {{p}, {q}, {p}, {one}, {}}), "must have the same type"},
      {"velocity", Make("momentum", {{p}, {p}, {q}, {one}, {}}), "must have the same type"},
      {"learning rate", Make("momentum", {{p}, {p}, {p}, {p}, {}}), "[1]"},
      {"gradient", Make("adam", {{p}, {q}, {p}, {p}, {one}, {one}, {one}, {}}),
       "must have the same type"},
      {"first moment", Make("adam", {{p}, {p}, {q}, {p}, {one}, {one}, {one}, {}}),
       "must have the same type"},
      {"second moment", Make("adam", {{p}, {p}, {p}, {q}, {one}, {one}, {one}, {}}),
       "must have the same type"},
      {"first power", Make("adam", {{p}, {p}, {p}, {p}, {p}, {one}, {one}, {}}), "[1]"},
      {"second power", Make("adam", {{p}, {p}, {p}, {p}, {one}, {p}, {one}, {}}), "[1]"},
      {"learning rate", Make("adam", {{p}, {p}, {p}, {p}, {one}, {one}, {p}, {}}), "[1]"},
      {"attribute's type", Make("momentum", {{p}, {p}, {p}, {one}, {}}, {{"use_nesterov", 1.0}}),
       "use_nesterov", false},
      {"rows' type", Make("sgd", {{p}, {F32({2, 5})}, {one}, {F32({2})}}), "Rows must be i64"},
      {"rows' number", Make("sgd", {{p}, {F32({2, 5})}, {one}, {Ids({3}, 4)}}), "f32[3,5]"},
      {"rows' width",
       Make("adam", {{p}, {F32({2, 4})}, {p}, {p}, {one}, {one}, {one}, {Ids({2}, 4)}}),
       "f32[2,5]"},
      {"sparse vector", Make("sgd", {{F32({4})}, {F32({2, 1})}, {one}, {Ids({2}, 4)}}),
       "2 dimensions"},
      {"no velocity", Make("rmsprop", {{p}, {p}, {p}, {q}, {}, {one}, {}}),
       "must have the same type"},
      {"norm", Make("clip_by_norm", {{p}}, {{"max_norm", 0.0}}), "max_norm=0"},
      {"limits", Make("clip", {{p}}, {{"min", 2.0}}), "min=2"},
      {"nothing to clip", Make("clip_by_global_norm", {{}}), "at least one"},
      {"penalty", Make("regularize", {{p}, {q}, {}}), "must have the same type"},
      {"odd", Make("sum_sparse_rows", {{F32({2, 5})}}), "pairs"},
      {"width", Make("sum_sparse_rows", {{F32({2, 5}), Ids({2}, 4), F32({2, 4}), Ids({2}, 4)}}),
       "f32[2,5]"},
      {"height",
       Make("sparse_rows_to_dense", {{F32({2, 5})}, {Ids({2}, 4)}}, {{"height", int64_t{0}}}),
       "height=0"},
  };
  for (const Bad& bad : table) ExpectRefused(bad);
}

// For each slot that must have a variable, the test sets the name to "" and expects an error.
TEST(Infer, RefusesVariablesWithoutAName) {
  std::set<std::string> seen;
  for (const OpCase& c : AllCases()) {
    if (!seen.insert(c.op).second) continue;
    const ops::OpDef& def = *ops::FindOp(c.op);
    for (size_t slot = 0; slot < def.inputs.size() + def.outputs.size(); ++slot) {
      const bool input = slot < def.inputs.size();
      const size_t s = input ? slot : slot - def.inputs.size();
      if ((input ? def.inputs : def.outputs)[s].arity == ops::Arity::kOptional) continue;
      graph::Program program;
      ops::Op op = MakeOp(c);
      for (const Value& value : DrawInputs(c, 0)) {
        const std::string name = "in" + std::to_string(program.vars().size());
        ASSERT_TRUE(
            program.AddVar({.name = name, .kind = graph::VarKind::kData, .desc = value.desc}).ok());
      }
      (input ? op.inputs : op.outputs)[s] = {""};
      EXPECT_EQ(graph::AppendOp(program, op).code(), StatusCode::kInvalidArgument)
          << c.op << (input ? " input " : " output ") << s;
    }
  }
}

// A communication operator without variables is rejected. A communication operator must have at
// least one input, and as many outputs as inputs.
TEST(Infer, RefusesCommunicationOfNothing) {
  for (const ops::OpDef* def : ops::AllOps()) {
    if (!def->is_comm) continue;
    graph::Program program;
    ops::Op op{.type = def->type, .inputs = {{}}, .outputs = {{}}, .attrs = {}, .source = ""};
    for (const ops::AttrDef& attr : def->attrs) {
      if (attr.default_value.index() == 0) op.attrs[attr.name] = std::string("w");
    }
    EXPECT_EQ(graph::AppendOp(program, op).code(), StatusCode::kInvalidArgument) << def->type;
  }
}

// Every row of the test bench is accepted. Rows with invalid labels are accepted too, because
// labels are data and only kernels check data.
TEST(Infer, AcceptsEveryRow) {
  for (const OpCase& c : AllCases()) EXPECT_TRUE(Append(c).ok()) << CaseName(c);
}

}  // namespace
}  // namespace tandem::optest
