// Criteo's click logs and files in their form: a label (0 or 1), 13 numbers I1..I13 and 26
// categories C1..C26, separated by tabs (as published) or commas; empty fields are missing values.
// Source: Criteo Labs, Display Advertising Challenge, Kaggle 2014.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/reader/record_files.h"

namespace tandem {

inline constexpr size_t kCriteoNumbers = 13, kCriteoCategories = 26;

struct CriteoOptions {
  RecordFiles files;
  char separator = '\t';
  // Ids of each category, at least 2: the first for a missing value, the others for its text by
  // hash (HashToRange, text_values.h, with the number of the column as seed).
  int64_t category_ids = int64_t{1} << 16;
  // Numbers as ids, too, before the categories: of each column 0 where it is missing, one id for
  // every whole number from -2 to 2 (lower ones count as -2), and one for each whole value of
  // ln(x)^2 above, up to the last. The transform of Juan, Zhuang and Chin, "3 Idiots' Approach for
  // Display Advertising Challenge", 2014. 512 are enough for all numbers below 2^32; at least 7.
  int64_t number_ids = 512;
  // Instead, numbers as f32: ln(1 + max(x, 0)), 0 where missing. As in Naumov et al., "Deep
  // Learning Recommendation Model for Personalization and Recommendation Systems", 2019, and its
  // code.
  bool dense = false;
};

// Fields of both datasets: "ids" i64 [39], or with `dense` "ids" i64 [26] and "dense" f32 [13], and
// "label" i64 [1]; ids of the columns follow each other. A file's first line whose label is a word
// names the columns and is left out. A bad record has another number of fields than 40, a label but
// 0 and 1, or a number that is none. Errors: ReadLineFiles(), and INVALID_ARGUMENT for options out
// of range.
StatusOr<TrainAndTest> OpenCriteo(const CriteoOptions& options);

}  // namespace tandem
