// Checks whether numbers are finite, that is neither NaN nor infinite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/types.h"

namespace tandem {

bool AllFinite(std::span<const float> values);
// Returns the index of the first value that is NaN or infinite. -1: all values are finite.
int64_t FirstNotFinite(std::span<const float> values);
// Returns the index of the first element that is NaN or infinite. -1: there is no such element, or
// `dtype` is an integer type.
int64_t FirstNotFinite(const void* data, DType dtype, int64_t numel);

// Copies `count` values and returns whether all of them are finite. `from` and `to` must not
// overlap. If the values are not in the cache, the function takes hardly longer than a copy alone,
// because each piece is checked while it is in the cache.
bool CopyFinite(const float* from, float* to, size_t count);

}  // namespace tandem
