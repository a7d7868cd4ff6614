// Fuzz target: plain text, read as bytes. The reader makes windows of the text, with or without the
// bytes that a model predicts.
#include "trainer/reader/text.h"
#include "tests/fuzz/file_target.h"

namespace tandem {
namespace {

Status Open(const std::string& path) {
  const Status windows = CheckedBoth(reader::OpenText(
      {.path = path, .sequence = 3, .stride = 1, .test_share = 0.4, .predicted = 0}));
  const Status masked = CheckedBoth(
      reader::OpenText({.path = path, .sequence = 4, .test_share = 0.5, .predicted = 1}));
  return windows.ok() ? masked : windows;
}

}  // namespace

FuzzTarget MakeFuzzTarget() { return {{"abcdefghij\xff."}, {}, FileAccepts(Open)}; }

}  // namespace tandem
