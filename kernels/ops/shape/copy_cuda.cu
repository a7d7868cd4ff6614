// CUDA kernels that fill, copy, convert or reorder elements. Their operators are defined in
// cast.cc, fill_constant.cc, reshape.cc, layout.cc and reorder.cc.
#include <type_traits>

#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_launch.h"
#include "kernels/ops/formulas/convert.h"
#include "kernels/ops/shape/copy_parts.h"

namespace tandem::ops {
namespace {

// ---- cast ---------------------------------------------------------------------------------------

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;

template <typename To, typename From>
__device__ To Convert(From x) {
  if constexpr (kIsInteger<From> && kIsInteger<To>) {
    return ToInteger<To>(static_cast<int64_t>(x));
  } else if constexpr (kIsInteger<From>) {
    return Narrow<To>(static_cast<float>(x));
  } else if constexpr (kIsInteger<To>) {
    return ToInteger<To>(Wide(x));
  } else {
    return Narrow<To>(Wide(x));
  }
}

struct CastState {
  int64_t n;
};

template <typename From, typename To, int from>
Status RunCast(CastState& s, const KernelArgs& args) {
  const From* x = In<From>(args, from);
  To* out = Out<To>(args, 0);
  return ForEach(args, s.n, [=] __device__(int64_t i) { out[i] = Convert<To>(x[i]); });
}

template <typename From, int from>
Kernel CastFrom(const CastState& s, DType to) {
  switch (to) {
    case DType::kF32:
      return MakeKernel<CastState, RunCast<From, float, from>>(s);
    case DType::kF16:
      return MakeKernel<CastState, RunCast<From, __half, from>>(s);
    case DType::kBF16:
      return MakeKernel<CastState, RunCast<From, __nv_bfloat16, from>>(s);
    case DType::kI32:
      return MakeKernel<CastState, RunCast<From, int32_t, from>>(s);
    case DType::kI64:
      return MakeKernel<CastState, RunCast<From, int64_t, from>>(s);
    case DType::kU8:
      return MakeKernel<CastState, RunCast<From, uint8_t, from>>(s);
  }
  return {};
}

// Prepares the conversion of the input at position `from`: 0 for cast, 1 for cast_grad.
template <int from>
StatusOr<Kernel> PrepareCast(const OpView& view, const PrepareContext&) {
  const CastState s{view.in(0).shape.numel()};
  const DType to = view.out(0).dtype;
  switch (view.in(from).dtype) {
    case DType::kF32:
      return CastFrom<float, from>(s, to);
    case DType::kF16:
      return CastFrom<__half, from>(s, to);
    case DType::kBF16:
      return CastFrom<__nv_bfloat16, from>(s, to);
    case DType::kI32:
      return CastFrom<int32_t, from>(s, to);
    case DType::kI64:
      return CastFrom<int64_t, from>(s, to);
    case DType::kU8:
      return CastFrom<uint8_t, from>(s, to);
  }
  return Unimplemented("this kernel does not support the element type");
}

// ---- fill_constant ------------------------------------------------------------------------------

struct FillState {
  int64_t n;
  double value;
};

template <typename T>
Status RunFill(FillState& s, const KernelArgs& args) {
  T* out = Out<T>(args, 0);
  const T value = static_cast<T>(s.value);
  return ForEach(args, s.n, [=] __device__(int64_t i) { out[i] = value; });
}

StatusOr<Kernel> PrepareFill(const OpView& view, const PrepareContext&) {
  const FillState s{view.out(0).shape.numel(), view.attr<double>("value")};
  switch (view.out(0).dtype) {
    case DType::kF32:
      return MakeKernel<FillState, RunFill<float>>(s);
    case DType::kI32:
      return MakeKernel<FillState, RunFill<int32_t>>(s);
    case DType::kI64:
      return MakeKernel<FillState, RunFill<int64_t>>(s);
    case DType::kU8:
      return MakeKernel<FillState, RunFill<uint8_t>>(s);
    default:
      return Unimplemented("this kernel does not support 16-bit floats");
  }
}

// ---- reshape ------------------------------------------------------------------------------------

struct ReshapeState {
  size_t bytes;
};

template <int input>
Status RunReshape(ReshapeState& s, const KernelArgs& args) {
  return CopyOnDevice(args, args.out[0], args.in[input], s.bytes);
}

template <int input>
StatusOr<Kernel> PrepareReshape(const OpView& view, const PrepareContext&) {
  return MakeKernel<ReshapeState, RunReshape<input>>({view.in(input).bytes()});
}

// ---- transpose, concat, split, slice, reorder: copies between strided windows -------------------

// The strides of a StridedCopy in a form that can be passed to a CUDA kernel.
struct Strided {
  int rank;
  int64_t n = 1;
  int64_t dims[Shape::kRankMax], from[Shape::kRankMax], to[Shape::kRankMax];

  explicit Strided(const StridedCopy& copy) : rank(copy.rank()) {
    for (int d = 0; d < rank; ++d) {
      const auto at = static_cast<size_t>(d);
      dims[d] = copy.dims()[at];
      from[d] = copy.from()[at];
      to[d] = copy.to()[at];
      n *= dims[d];
    }
  }
};

// Copies a part element by element. T is a type with the size of an element.
template <typename T>
Status CopyPartOf(const KernelArgs& args, const CopyPart& part) {
  const Strided s(part.copy);
  const T* x = In<T>(args, static_cast<int>(part.in)) + part.from / sizeof(T);
  T* out = Out<T>(args, static_cast<int>(part.out)) + part.to / sizeof(T);
  return ForEach(args, s.n, [=] __device__(int64_t i) {
    int64_t from = 0, to = 0;
    for (int d = s.rank - 1; d >= 0; --d) {
      const int64_t rest = Quotient(i, s.dims[d]), index = i - rest * s.dims[d];
      i = rest;
      from += index * s.from[d];
      to += index * s.to[d];
    }
    out[to] = x[from];
  });
}

Status RunCopies(CopyParts& s, const KernelArgs& args) {
  TD_RETURN_IF_ERROR(ZeroOnDevice(args, args.out[0], s.zeros));
  for (const CopyPart& part : s.parts) {
    const size_t bytes = part.copy.element_bytes();
    const auto copy = bytes == 8   ? CopyPartOf<uint64_t>
                      : bytes == 4 ? CopyPartOf<uint32_t>
                      : bytes == 2 ? CopyPartOf<uint16_t>
                                   : CopyPartOf<uint8_t>;
    TD_RETURN_IF_ERROR(copy(args, part));
  }
  return OkStatus();
}

template <StatusOr<CopyParts> (*Parts)(const OpView&)>
StatusOr<Kernel> PrepareCopies(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(CopyParts copies, Parts(view));
  return MakeKernel<CopyParts, RunCopies>(std::move(copies));
}

}  // namespace

std::vector<KernelRegistration> CopyCudaRows() {
  return {
      {"cast", {{"cuda", PrepareCast<0>}}},
      {"cast_grad", {{"cuda", PrepareCast<1>}}},
      {"concat", {{"cuda", PrepareCopies<ConcatParts>}}},
      {"concat_grad", {{"cuda", PrepareCopies<ConcatGradParts>}}},
      {"fill_constant", {{"cuda", PrepareFill}}},
      {"reorder", {{"cuda", PrepareCopies<ReorderParts>}}},
      {"reshape", {{"cuda", PrepareReshape<0>}}},
      {"reshape_grad", {{"cuda", PrepareReshape<1>}}},
      {"slice", {{"cuda", PrepareCopies<SliceParts>}}},
      {"slice_grad", {{"cuda", PrepareCopies<SliceGradParts>}}},
      {"split", {{"cuda", PrepareCopies<SplitParts>}}},
      {"split_grad", {{"cuda", PrepareCopies<SplitGradParts>}}},
      {"transpose", {{"cuda", PrepareCopies<TransposeParts>}}},
  };
}

}  // namespace tandem::ops
