#include "trainer/reader/input/dataset.h"

#include <numeric>

namespace tandem::reader {

Status FillAll(const Dataset& dataset, std::span<void* const> out) {
  std::vector<uint32_t> ids(dataset.size());
  std::iota(ids.begin(), ids.end(), 0u);
  return dataset.Fill(ids, out);
}

}  // namespace tandem::reader
