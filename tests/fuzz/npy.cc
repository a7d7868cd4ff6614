// Fuzz target: arrays of numpy (.npy).
#include <cmath>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/numpy_files.h"
#include "trainer/reader/input/npy_array.h"

namespace tandem {
namespace {

bool Accepts(std::string_view input) {
  const std::span file(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  const auto array = reader::ParseNpy(file, "file");
  CHECK(array.ok() || !array.status().message().empty());
  if (!array.ok()) return false;
  uint64_t elements = 1;
  for (const uint64_t dim : array->dims) elements *= dim;
  CHECK_EQ(array->elements, elements);
  double sum = 0;  // reads every byte
  for (uint64_t i = 0; i < elements; ++i) sum += array->At(i);
  CHECK(std::isnan(sum) || sum == sum);
  return true;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  return {{Npy<float>("<f4", "(2, 2)", {1, 2, 3, 4}), Npy<double>("<f8", "(3,)", {1, 2, 3}, 2),
           Npy<int64_t>("<i8", "()", {1}, 3), Npy<uint8_t>("|b1", "(2, 1)", {0, 1})},
          {"<f4", "<f8", "<i4", "|u1", "(", ")", ",", "True", "False", "'shape': ", "L",
           "18446744073709551615", "4294967296", "'descr': '"},
          Accepts};
}

}  // namespace tandem
