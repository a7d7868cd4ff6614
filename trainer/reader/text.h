// Samples of a plain text for language models. A sample is a window of the text, and every byte is
// a token.
#pragma once

#include <string>

#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

struct TextOptions {
  std::string path;
  int64_t sequence = 128;   // number of bytes of a sample
  int64_t stride = 0;       // distance between the starts of two samples, bytes; 0: `sequence`
  double test_share = 0.1;  // share of the text that is test data, at the end of the text
  int64_t predicted = 0;  // number of bytes of a sample to predict from the other bytes; 0: predict
                          // the next byte
  uint32_t samples_max = 0;  // number of training samples to use, from the first on; 0: all
};

// Opens the text. The fields are "ids" i64 [sequence], the bytes in order, and "label" i64
// [sequence], the next byte of each position. With `predicted`, this number of bytes of a sample is
// chosen. "label" then contains the chosen bytes, and -100 at all other positions. In "ids", 80 %
// of the chosen bytes are 256, 10 % are a random byte, and the others are unchanged (Devlin et al.,
// BERT, NAACL 2019, section 3.1). The choice depends only on the number of the sample. Bytes at the
// end of a part of the text that do not fill a sample are unused.
//
// INVALID_ARGUMENT: an option is out of range, or `path` is a directory. NOT_FOUND or
// PERMISSION_DENIED: the file cannot be opened. DATA_LOSS: a part of the text is too short for one
// sample, or the file cannot be read to its end.
StatusOr<TrainAndTest> OpenText(const TextOptions& options);

}  // namespace tandem::reader
