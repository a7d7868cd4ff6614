// The text format of LIBSVM: `label index:value index:value ...`, one record per line. Source:
// Chang and Lin, "LIBSVM: A Library for Support Vector Machines", ACM TIST 2011, and its README.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/reader/input/record_files.h"

namespace tandem::reader {

struct LibSvmOptions {
  RecordFiles files;
  int64_t ids = 0;    // indices are in [0, ids)
  bool hash = false;  // accepts any index and hashes it to [1, ids)
  // Largest number of features per record. Shorter records are padded with id 0 and value 0. The
  // padding adds nothing to a sum of values times weights, nor to its gradient.
  int64_t features_max = 0;
  int64_t classes = 2;  // labels are 0 .. classes - 1; with 2 classes also -1 and 0 for 0, +1 for 1
};

// Fields of both datasets: "ids" i64 [features_max], "values" f32 [features_max], "label" i64 [1].
// Text after a '#' is a comment. `qid:N` after the label is ignored, because records are not
// grouped. A record is bad in these cases:
//
// - its label is not a class;
// - a feature is not `index:value`;
// - indices do not ascend or are out of range;
// - there are too many features.
//
// Errors: as ReadLineFiles(). INVALID_ARGUMENT: options out of range.
StatusOr<TrainAndTest> OpenLibSvm(const LibSvmOptions& options);

}  // namespace tandem::reader
