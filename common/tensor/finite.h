// Checks for finite numbers: neither NaN nor infinite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/types.h"

namespace tandem {

bool AllFinite(std::span<const float> values);
// Returns the index of the first value that is not finite; -1: all are finite.
int64_t FirstNotFinite(std::span<const float> values);
// Returns the position of the first element that is NaN or infinite; -1: none, or the type is an
// integer type.
int64_t FirstNotFinite(const void* data, DType dtype, int64_t numel);

// Copies `count` values, which must not overlap, and returns whether all are finite. If `from` is
// not in the cache, this takes hardly longer than the copy: each piece is checked while it is in
// the cache.
bool CopyFinite(const float* from, float* to, size_t count);

}  // namespace tandem
