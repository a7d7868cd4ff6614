#include "kernels/ops/core/infer.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace tandem::ops {

Status NeedF32(const OpView& view, int other) {
  for (size_t i = 0; i < view.in_count(); ++i) {
    if (static_cast<int>(i) == other || !view.has_in(i)) continue;
    if (view.in(i).dtype != DType::kF32) {
      return view.Error(absl::StrFormat("input %d must be f32, not %s", i, Name(view.in(i).dtype)));
    }
  }
  return OkStatus();
}

Status NeedFloats(const OpView& view, std::initializer_list<size_t> alike, int other) {
  const DType dtype = view.in(*alike.begin()).dtype;
  for (size_t i = 0; i < view.in_count(); ++i) {
    if (static_cast<int>(i) == other || !view.has_in(i)) continue;
    const DType got = view.in(i).dtype;
    if (std::find(alike.begin(), alike.end(), i) == alike.end()) {
      if (got == DType::kF32) continue;
      return view.Error(absl::StrFormat("input %d must be f32, not %s", i, Name(got)));
    }
    if (got != dtype) {
      return view.Error(absl::StrFormat("input %d must be %s, not %s", i, Name(dtype), Name(got)));
    }
    if (got == DType::kF32 || IsHalf(got)) continue;
    return view.Error(absl::StrFormat("input %d must be f32, f16 or bf16, not %s", i, Name(got)));
  }
  return OkStatus();
}

Status NeedRank(const OpView& view, size_t i, const char* name, int rank) {
  if (view.in(i).shape.rank() == rank) return OkStatus();
  return view.Error(
      absl::StrFormat("%s must have %d dimensions, not %d", name, rank, view.in(i).shape.rank()));
}

Status NeedOne(const OpView& view, size_t i, const char* name) {
  if (view.in(i).shape == Shape{1}) return OkStatus();
  return view.Error(absl::StrFormat("%s must have the shape [1]", name));
}

Status NeedSame(const OpView& view, size_t i, const char* name_i, size_t j, const char* name_j) {
  if (view.in(i) == view.in(j)) return OkStatus();
  return view.Error(absl::StrFormat("%s and %s must have the same type and shape", name_i, name_j));
}

Status NeedLabel(const OpView& view, size_t i) {
  const int64_t rows = view.in(0).shape[0];
  if (view.in(i).dtype == DType::kI64 && view.in(i).shape == Shape{rows, 1}) return OkStatus();
  return view.Error(absl::StrFormat("input Label must be i64[%d,1]", rows));
}

Status NeedPair(const OpView& view, const char* name, int64_t min) {
  const auto v = view.attr<std::vector<int64_t>>(name);
  // The limit of 2^20 keeps all products of sizes and strides far below an overflow.
  if (v.size() == 2 && v[0] >= min && v[1] >= min && v[0] <= 1 << 20 && v[1] <= 1 << 20) {
    return OkStatus();
  }
  return view.Error(absl::StrFormat("%s must be two integers of at least %d, but is [%s]", name,
                                    min, absl::StrJoin(v, ",")));
}

Status NeedInts(const OpView& view, const char* name) {
  const auto it = view.op().attrs.find(name);
  if (it != view.op().attrs.end() && std::holds_alternative<std::vector<int64_t>>(it->second)) {
    return OkStatus();
  }
  return view.Error(absl::StrFormat("%s must be a list of integers", name));
}

Status InferAnyFloat(const OpView& view, std::span<TensorDesc> outputs) {
  const DType dtype = view.in(0).dtype;
  if (dtype != DType::kF32 && !IsHalf(dtype)) {
    return view.Error(absl::StrFormat("input 0 must be f32, f16 or bf16, not %s", Name(dtype)));
  }
  for (size_t i = 1; i < view.in_count(); ++i) {
    if (!view.has_in(i) || view.in(i).dtype == dtype) continue;
    return view.Error(
        absl::StrFormat("input %d must be %s, not %s", i, Name(dtype), Name(view.in(i).dtype)));
  }
  outputs[0] = view.in(0);
  return OkStatus();
}

Status InferAsFirst(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  outputs[0] = view.in(0);
  return OkStatus();
}

}  // namespace tandem::ops
