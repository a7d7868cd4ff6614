// Training data for skip-gram with negative sampling: pairs of neighbouring words in a text, and
// randomly drawn words (negatives). Source: Mikolov et al., "Distributed Representations of Words
// and Phrases and their Compositionality", NIPS 2013.
#pragma once

#include <string>

#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

struct SkipGramOptions {
  std::string path;        // path of the text file; words are sequences of letters, case is ignored
  int64_t vocabulary = 0;  // size of the vocabulary (the most frequent words); other words are
                           // removed
  int64_t window = 5;      // number of neighbours on each side of a word
  int64_t negatives = 5;   // number of words drawn for each pair, proportional to count^0.75
  double test_share = 0.05;  // share of the text that is test data, at the end of the text
  uint32_t samples_max = 0;  // number of training pairs to use, from the first on; 0: all
};

// Opens the text. A sample is one pair of words. Words are numbered by frequency from 0. Each of
// the following fields is i64 [1 + negatives].
// - "center": every element is the first word of the pair.
// - "target": the first element is the neighbour. The others are drawn words, which never equal the
// neighbour.
// - "label": the first element is 1, the others are 0.
//
// The drawn words depend only on the number of the sample, so every epoch has the same drawn words.
// INVALID_ARGUMENT: an option is out of range. NOT_FOUND: the file does not exist. DATA_LOSS: the
// text has fewer than three words of the vocabulary, or one of its two parts has no pair.
StatusOr<TrainAndTest> OpenSkipGram(const SkipGramOptions& options);

}  // namespace tandem::reader
