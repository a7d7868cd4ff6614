// Fuzz target: plain text, read as words. The reader makes the vocabulary and the pairs of
// skip-gram.
#include "tests/fuzz/file_target.h"
#include "trainer/reader/skipgram.h"

namespace tandem {

FuzzTarget MakeFuzzTarget() {
  return {{"A b, a C! a rare d; c-a b"},
          {"a ", "b ", " rare", "\xc3\xa4"},
          FileAccepts([](const std::string& path) {
            return CheckedBoth(reader::OpenSkipGram(
                {.path = path, .vocabulary = 4, .window = 2, .negatives = 2, .test_share = 0.4}));
          })};
}

}  // namespace tandem
