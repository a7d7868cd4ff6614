// Makes 16-bit rows from the f32 rows of the other families.
#include <algorithm>
#include <set>

#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

// An operator that supports all float types. Some of its slots are always f32.
struct HalfOp {
  const char* op;
  std::set<size_t> f32_inputs = {}, f32_outputs = {};
};

const std::vector<HalfOp>& HalfOps() {
  static const std::vector<HalfOp> ops = {
      {"batch_norm", {1, 2, 3, 4}, {1, 2, 3, 4}},
      {"batch_norm_grad", {1, 2, 3, 5}, {1, 2}},
      {"conv2d", {2}},
      {"conv2d_grad", {}, {2}},
      {"conv2d_relu", {2}},
      {"dropout"},
      {"elementwise_add"},
      {"elementwise_add_grad"},
      {"elementwise_div"},
      {"elementwise_div_grad"},
      {"elementwise_max"},
      {"elementwise_max_grad"},
      {"elementwise_mul"},
      {"elementwise_mul_grad"},
      {"elementwise_sub"},
      {"elementwise_sub_grad"},
      {"fc", {2}},
      {"fc_grad", {}, {2}},
      {"fused_attention", {}, {1}},
      {"fused_attention_grad", {5}},
      {"fused_bn_add_activation", {1, 2, 3, 4}, {1, 2, 3, 4}},
      {"fused_bn_add_activation_grad", {1, 2, 3, 6}, {1, 2}},
      {"fused_elemwise_activation"},
      {"fused_elemwise_activation_grad"},
      {"gelu"},
      {"gelu_grad"},
      {"matmul"},
      {"pool2d"},
      {"pool2d_grad"},
      {"relu"},
      {"relu_grad"},
      {"reorder"},
      {"scale"},
      {"sigmoid"},
      {"sigmoid_grad"},
      {"sum"},
      {"tanh"},
      {"tanh_grad"},
  };
  return ops;
}

const HalfOp* FindHalfOp(const std::string& op) {
  for (const HalfOp& half : HalfOps()) {
    if (half.op == op) return &half;
  }
  return nullptr;
}

// The tolerance of the f32 row, plus the error of rounding to nearest, plus half the spacing of
// denormal f16 numbers.
Tolerance HalfTolerance(Tolerance t, DType half) {
  // Tolerance for rounding of intermediate values.
  t.of_max += half == DType::kBF16 ? 0x1p-9 : 0x1p-12;
  t.rel += half == DType::kBF16 ? 0x1p-8 : 0x1p-11;
  t.abs += half == DType::kBF16 ? 1e-38 : 0x1p-25;
  return t;
}

OpCase AsHalf(OpCase c, const HalfOp& op, DType half) {
  for (size_t s = 0; s < c.inputs.size(); ++s) {
    for (Draw& d : c.inputs[s]) {
      if (d.desc.dtype == DType::kF32 && !op.f32_inputs.contains(s)) d.desc.dtype = half;
    }
  }
  c.tolerance = HalfTolerance(c.tolerance, half);
  // Several windows contain the same element. oneDNN rounds the sum of the gradients of these
  // windows after each window.
  if (c.op == "pool2d_grad" && half == DType::kBF16) c.tolerance.of_max += 0x1p-7;
  // The kernel may round its result to 16 bits before it adds the f32 bias.
  if (c.op.starts_with("conv2d") && c.inputs.size() == 3 && op.f32_inputs.contains(2)) {
    c.tolerance.of_max += half == DType::kBF16 ? 0x1p-9 : 0x1p-12;
  }
  // Finite differences of 16-bit values are not checked: a small step would vanish in rounding, and
  // differences over a large step are inaccurate.
  c.grad_slots.clear();
  c.bench &= half == DType::kBF16;
  return c;
}

}  // namespace

DType OutputType(const OpCase& c, size_t slot) {
  const HalfOp* op = FindHalfOp(c.op);
  if (op == nullptr || c.inputs.empty() || c.inputs[0].empty()) return DType::kF32;
  return op->f32_outputs.contains(slot) ? DType::kF32 : c.inputs[0][0].desc.dtype;
}

std::vector<OpCase> HalfCases() {
  std::vector<OpCase> cases;
  for (const auto& family : {LinearCases(), ImageCases(), NormCases(), ElementwiseCases(),
                             DenseCases(), FusedCases(), AttentionCases()}) {
    for (const OpCase& c : family) {
      const HalfOp* op = FindHalfOp(c.op);
      if (op == nullptr || !c.body.empty()) continue;
      // On CPUs, f16 uses the f32 kernels. Therefore only small rows get an f16 row.
      const int64_t elements = c.inputs[0].empty() ? 0 : c.inputs[0][0].desc.shape.numel();
      cases.push_back(AsHalf(c, *op, DType::kBF16));
      if (elements < 1024) cases.push_back(AsHalf(c, *op, DType::kF16));
    }
  }
  return cases;
}

}  // namespace tandem::optest
