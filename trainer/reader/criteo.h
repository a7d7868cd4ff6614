// Criteo's click logs and files of the same format: a label (0 or 1), 13 numbers I1..I13 and 26
// categories C1..C26. Fields are separated by tabs (as published) or commas. An empty field is a
// missing value. Source: Criteo Labs, Display Advertising Challenge, Kaggle 2014.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/input/line_format.h"
#include "trainer/reader/input/record_files.h"

namespace tandem::reader {

inline constexpr size_t kCriteoNumbers = 13, kCriteoCategories = 26;

struct CriteoOptions {
  RecordFiles files;
  char separator = '\t';
  // Number of ids of each category, at least 2. The first id is for a missing value. The other ids
  // are hashes of the text (HashToRange in text_values.h, seeded with the column number).
  int64_t category_ids = int64_t{1} << 16;
  // Number of ids of each number column, if numbers are converted to ids. The id ranges of the
  // number columns precede those of the categories. A number column has the following ids.
  // - One id, 0, is for a missing value.
  // - Each whole number from -2 to 2 has one id; lower numbers have the id of -2.
  // - For larger numbers x, each whole value of ln(x)^2 has one id, up to the last id.
  //
  // Source of this transform: Juan, Zhuang and Chin, "3 Idiots' Approach for Display Advertising
  // Challenge", 2014. number_ids is at least 7; 512 are enough for all numbers below 2^32.
  int64_t number_ids = 512;
  // True: a number x is not converted to an id, but becomes the f32 ln(1 + max(x, 0)); a missing
  // value becomes 0. Source: Naumov et al., "Deep Learning Recommendation Model for Personalization
  // and Recommendation Systems", 2019, and its code.
  bool dense = false;
};

// Opens click logs. The fields of both datasets are "ids" i64 [39] and "label" i64 [1]. With
// `dense` they are "ids" i64 [26], "dense" f32 [13] and "label" i64 [1]. The id ranges of the
// columns are consecutive. If the label in the first line is a word, the line names the columns and
// is skipped. A record is bad if it does not have 40 fields, if its label is not 0 or 1, or if a
// number is malformed. INVALID_ARGUMENT: an option is out of range. Other errors are those of
// ReadLineFiles().
StatusOr<TrainAndTest> OpenCriteo(const CriteoOptions& options);

// Makes the format of such lines, with the fields of OpenCriteo(). `options.files` is unused.
// INVALID_ARGUMENT: an option is out of range.
StatusOr<std::unique_ptr<LineFormat>> MakeCriteoLines(const CriteoOptions& options);

}  // namespace tandem::reader
