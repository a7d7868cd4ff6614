// Pairs of words that stand near each other in a text, with words drawn at random beside them: what
// skip-gram with negative sampling trains on. Source: Mikolov et al., "Distributed Representations
// of Words and Phrases and their Compositionality", NIPS 2013.
#pragma once

#include <string>

#include "trainer/reader/dataset.h"

namespace tandem {

struct SkipGramOptions {
  std::string path;          // text; words are runs of letters, without case
  int64_t vocabulary = 0;    // the most frequent words so many; all others are left out of the text
  int64_t window = 5;        // words on each side
  int64_t negatives = 5;     // drawn for each pair, with probability ~ count^0.75
  double test_share = 0.05;  // of the text, at its end
  uint32_t samples_max = 0;  // the first so many training pairs; 0: all
};

// A sample is one pair. Fields: "center" i64 [1 + negatives], the same word in every element,
// "target" i64 [1 + negatives], the neighbour and then the drawn words, none of which is the
// neighbour, and "label" i64 [1 + negatives], 1 and then 0. Words are numbered by frequency from 0.
// What is drawn depends on the number of the sample alone, so every epoch draws the same.
// INVALID_ARGUMENT for options out of range, NOT_FOUND for the file, DATA_LOSS for a text of fewer
// than three words of the vocabulary, or one of which either part has no pair.
StatusOr<TrainAndTest> OpenSkipGram(const SkipGramOptions& options);

}  // namespace tandem
