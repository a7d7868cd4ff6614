#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/base/require.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half_loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/formulas/convert.h"

namespace tandem::ops {
namespace {

// Types for the 16-bit floats, which are both stored as uint16_t.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

// Returns x in a type with which the CPU can compute: f32 for 16-bit floats, else the type of x.
inline float Widen(F16 x) { return F16ToF32(x.bits); }
inline float Widen(BF16 x) { return BF16ToF32(x.bits); }
template <typename T>
T Widen(T x) {
  return x;
}

template <typename To, typename From>
To Convert(From x) {
  if constexpr (std::is_same_v<To, F16>) {
    return {F32ToF16(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, BF16>) {
    return {F32ToBF16(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, float>) {
    return static_cast<float>(x);
  } else if constexpr (std::is_same_v<From, float>) {
    return ToInteger<To>(x);
  } else {
    return ToInteger<To>(static_cast<int64_t>(x));
  }
}

using LoopFn = void (*)(const void* from, void* to, int64_t begin, int64_t end);

template <typename From, typename To>
void Loop(const void* from, void* to, int64_t begin, int64_t end) {
  const auto* x = static_cast<const From*>(from);
  auto* out = static_cast<To*>(to);
  for (int64_t i = begin; i < end; ++i) out[i] = Convert<To>(Widen(x[i]));
}

template <typename From>
LoopFn LoopTo(DType to) {
  switch (to) {
    case DType::kF32:
      return Loop<From, float>;
    case DType::kF16:
      return Loop<From, F16>;
    case DType::kBF16:
      return Loop<From, BF16>;
    case DType::kI32:
      return Loop<From, int32_t>;
    case DType::kI64:
      return Loop<From, int64_t>;
    case DType::kU8:
      return Loop<From, uint8_t>;
  }
  return nullptr;
}

LoopFn LoopOf(DType from, DType to) {
  switch (from) {
    case DType::kF32:
      return LoopTo<float>(to);
    case DType::kF16:
      return LoopTo<F16>(to);
    case DType::kBF16:
      return LoopTo<BF16>(to);
    case DType::kI32:
      return LoopTo<int32_t>(to);
    case DType::kI64:
      return LoopTo<int64_t>(to);
    case DType::kU8:
      return LoopTo<uint8_t>(to);
  }
  return nullptr;
}

// Converts 16-bit floats to f32 with a vector loop.
template <HalfLoops::Widen HalfLoops::*loop>
void WidenLoop(const void* from, void* to, int64_t begin, int64_t end) {
  (BestHalfLoops().*loop)(static_cast<const uint16_t*>(from) + begin,
                          static_cast<float*>(to) + begin, end - begin);
}

template <HalfLoops::Round HalfLoops::*loop>
void RoundLoop(const void* from, void* to, int64_t begin, int64_t end) {
  (BestHalfLoops().*loop)(static_cast<const float*>(from) + begin,
                          static_cast<uint16_t*>(to) + begin, end - begin);
}

LoopFn VectorLoopOf(DType from, DType to) {
  if (to == DType::kF32 && from == DType::kBF16) return WidenLoop<&HalfLoops::widen_bf16>;
  if (to == DType::kF32 && from == DType::kF16) return WidenLoop<&HalfLoops::widen_f16>;
  if (from == DType::kF32 && to == DType::kBF16) return RoundLoop<&HalfLoops::round_bf16>;
  if (from == DType::kF32 && to == DType::kF16) return RoundLoop<&HalfLoops::round_f16>;
  return nullptr;
}

struct State {
  LoopFn loop;
  int64_t n;
  int parts;
};

// Converts the input at position `from`: 0 for cast, 1 for cast_grad.
template <int from>
Status Run(State& s, const KernelArgs& args) {
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loop(args.in[from], args.out[0], begin, end);
  });
  return OkStatus();
}

template <int from>
StatusOr<Kernel> PrepareVector(const OpView& view, const PrepareContext& ctx) {
  const LoopFn loop = VectorLoopOf(view.in(from).dtype, view.out(0).dtype);
  if (loop == nullptr)
    return Unimplemented("this kernel supports only casts between f32 and 16-bit types");
  const int64_t n = view.in(0).shape.numel();
  TD_REQUIRE(view.in(from).shape.numel() == n && view.out(0).shape.numel() == n);
  return MakeKernel<State, Run<from>>({loop, n, PartsFor(ctx.threads, n / 2)});
}

template <int from>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const int64_t n = view.in(0).shape.numel();
  TD_REQUIRE(view.in(from).shape.numel() == n && view.out(0).shape.numel() == n);
  return MakeKernel<State, Run<from>>(
      {LoopOf(view.in(from).dtype, view.out(0).dtype), n, PartsFor(ctx.threads, n)});
}

}  // namespace

constinit const KernelList kCastCpu = {{"vector", PrepareVector<0>}, {"plain", Prepare<0>}};
constinit const KernelList kCastGradCpu = {{"vector", PrepareVector<1>}, {"plain", Prepare<1>}};

}  // namespace tandem::ops
