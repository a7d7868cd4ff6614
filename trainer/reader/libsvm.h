// The text format of LIBSVM: `label index:value index:value ...`, one record a line. Source: Chang
// and Lin, "LIBSVM: A Library for Support Vector Machines", ACM TIST 2011, and its README.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/reader/record_files.h"

namespace tandem {

struct LibSvmOptions {
  RecordFiles files;
  int64_t ids = 0;    // indices are in [0, ids)
  bool hash = false;  // any index: hashed to [1, ids)
  // Features of a record at most. Records with fewer are filled up with id 0 and value 0, which
  // adds nothing to a sum of values times weights, nor to its gradient.
  int64_t features_max = 0;
  int64_t classes = 2;  // labels are 0 .. classes - 1; with two of them -1 and 0 mean 0, +1 means 1
};

// Fields of both datasets: "ids" i64 [features_max], "values" f32 [features_max], "label" i64 [1].
// What follows a '#' is a comment, and `qid:N` behind the label is read over: records are not
// grouped. A bad record has a label that is no class, a feature that is not `index:value`, indices
// that do not ascend or are out of range, or too many features. Errors: ReadLineFiles(), and
// INVALID_ARGUMENT for options out of range.
StatusOr<TrainAndTest> OpenLibSvm(const LibSvmOptions& options);

}  // namespace tandem
