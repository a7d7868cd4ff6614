// Criteo's click logs and files of the same format: a label (0 or 1), 13 numbers I1..I13 and 26
// categories C1..C26. Separators are tabs (as published) or commas; empty fields are missing
// values. Source: Criteo Labs, Display Advertising Challenge, Kaggle 2014.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/reader/input/record_files.h"

namespace tandem::reader {

inline constexpr size_t kCriteoNumbers = 13, kCriteoCategories = 26;

struct CriteoOptions {
  RecordFiles files;
  char separator = '\t';
  // Ids of each category, at least 2. The first is for a missing value, the others for hashes of
  // the text (HashToRange, text_values.h; the seed is the column number).
  int64_t category_ids = int64_t{1} << 16;
  // Converts numbers to ids too, placed before the categories. Each column has these ids:
  //
  // - 0 for a missing value;
  // - one for every whole number from -2 to 2 (lower numbers count as -2);
  // - one for each whole value of ln(x)^2 above, up to the last id.
  //
  // The transform of Juan, Zhuang and Chin, "3 Idiots' Approach for Display Advertising Challenge",
  // 2014. At least 7; 512 are enough for all numbers below 2^32.
  int64_t number_ids = 512;
  // Numbers are f32 instead: ln(1 + max(x, 0)), 0 for a missing value. As in Naumov et al., "Deep
  // Learning Recommendation Model for Personalization and Recommendation Systems", 2019, and its
  // code.
  bool dense = false;
};

// Fields of both datasets: "ids" i64 [39], or with `dense` "ids" i64 [26] and "dense" f32 [13], and
// "label" i64 [1]. The id ranges of the columns follow each other. A first line with a word as
// label names the columns and is skipped. A record is bad if it does not have 40 fields, its label
// is not 0 or 1, or a number is malformed. Errors: as ReadLineFiles(). INVALID_ARGUMENT: options
// out of range.
StatusOr<TrainAndTest> OpenCriteo(const CriteoOptions& options);

}  // namespace tandem::reader
