// Fuzz target: idx arrays with images (three dimensions) or labels (one dimension), plain and
// compressed.
#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/idx.h"

namespace tandem {
namespace {

std::string Text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

bool Accepts(std::string_view input) {
  const std::span file(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  bool accepted = false;
  for (const int rank : {1, 3}) {
    const auto array = reader::ParseIdx(file, "file", rank);
    CHECK(array.ok() || !array.status().message().empty());
    if (!array.ok()) continue;
    uint64_t elements = 1;
    for (const uint32_t dim : array->dims) elements *= dim;
    CHECK_EQ(array->dims.size(), static_cast<size_t>(rank));
    CHECK_EQ(array->data.size(), elements);
    accepted = true;
  }
  return accepted;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  const auto images = trainer::Idx({2, 2, 3}, std::vector<uint8_t>(12, 7)),
             labels = trainer::Idx({2}, {3, 9});
  return {{Text(images), Text(labels), Text(trainer::Gzip(images)), Text(trainer::Gzip(labels))},
          {},
          Accepts};
}

}  // namespace tandem
