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
// Returns the index of the first element that is NaN or infinite. -1: none, or an integer type.
int64_t FirstNotFinite(const void* data, DType dtype, int64_t numel);

// Copies `count` values and returns whether all of them are finite. `from` and `to` must not
// overlap. If the values are not in the cache, this takes hardly longer than the copy alone,
// because each piece is checked while it is in the cache.
bool CopyFinite(const float* from, float* to, size_t count);

}  // namespace tandem
