// Whether numbers are numbers: neither NaN nor infinite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem {

bool AllFinite(std::span<const float> values);
// Where the first one is that is not; -1: all are.
int64_t FirstNotFinite(std::span<const float> values);

// Copies `count` values, which must not overlap, and says whether all are finite. Takes hardly more
// than the copy where `from` is not in the cache: each piece is looked at while it is.
bool CopyFinite(const float* from, float* to, size_t count);

}  // namespace tandem
