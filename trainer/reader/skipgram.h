// Pairs of neighbouring words in a text, with randomly drawn words: training data for skip-gram
// with negative sampling. Source: Mikolov et al., "Distributed Representations of Words and Phrases
// and their Compositionality", NIPS 2013.
#pragma once

#include <string>

#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

struct SkipGramOptions {
  std::string path;        // text file; words are runs of letters, case ignored
  int64_t vocabulary = 0;  // number of words, the most frequent ones; other words are removed from
                           // the text
  int64_t window = 5;      // words on each side
  int64_t negatives = 5;   // drawn for each pair, with probability ~ count^0.75
  double test_share = 0.05;  // share of the text, at its end
  uint32_t samples_max = 0;  // uses only the first samples_max training pairs; 0: all
};

// A sample is one pair. Words are numbered by frequency from 0. Fields, each i64 [1 + negatives]:
//
// - "center": the same word in every element;
// - "target": the neighbour, then the drawn words, never the neighbour itself;
// - "label": 1, then 0.
//
// The drawn words depend only on the sample number, so every epoch draws the same.
// INVALID_ARGUMENT: options out of range. NOT_FOUND: no such file. DATA_LOSS: the text has fewer
// than three words of the vocabulary, or one of its parts has no pair.
StatusOr<TrainAndTest> OpenSkipGram(const SkipGramOptions& options);

}  // namespace tandem::reader
