// The text format of LIBSVM: `label index:value index:value ...`, one record per line. Source:
// Chang and Lin, "LIBSVM: A Library for Support Vector Machines", ACM TIST 2011, and its README.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/reader/input/line_format.h"
#include "trainer/reader/input/record_files.h"

namespace tandem::reader {

struct LibSvmOptions {
  RecordFiles files;
  int64_t ids = 0;    // number of ids; indices are in [0, ids)
  bool hash = false;  // true: any index is accepted and hashed to [1, ids)
  // Largest number of features per record. Shorter records are padded with id 0 and value 0. The
  // padding adds nothing to a sum of values times weights, and nothing to the gradient of the sum.
  int64_t features_max = 0;
  int64_t classes = 2;  // labels are in [0, classes); with 2 classes, -1 means 0 and +1 means 1
};

// Opens files in this format. The fields of both datasets are "ids" i64 [features_max], "values"
// f32 [features_max] and "label" i64 [1]. Text after a '#' is a comment. `qid:N` after the label is
// ignored, because records are not grouped. A record is bad for each of these reasons:
// - Its label is not a class.
// - A feature is not `index:value`.
// - The indices do not ascend, or one is out of range.
// - It has more than features_max features.
//
// INVALID_ARGUMENT: an option is out of range. Other errors are those of ReadLineFiles().
StatusOr<TrainAndTest> OpenLibSvm(const LibSvmOptions& options);

// Makes the format of such lines, with the fields of OpenLibSvm(). `options.files` is unused.
// INVALID_ARGUMENT: an option is out of range.
StatusOr<std::unique_ptr<LineFormat>> MakeLibSvmLines(const LibSvmOptions& options);

}  // namespace tandem::reader
