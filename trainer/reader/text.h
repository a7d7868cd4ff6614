// Windows of a plain text, for language models. Every byte is a token.
#pragma once

#include <string>

#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

struct TextOptions {
  std::string path;
  int64_t sequence = 128;    // bytes of a sample
  int64_t stride = 0;        // distance between the starts of two samples; 0: sequence
  double test_share = 0.1;   // share of the text, at its end
  int64_t predicted = 0;     // bytes per sample to predict from the others; 0: the next byte, see
                             // below
  uint32_t samples_max = 0;  // uses only the first samples_max training samples; 0: all
};

// Fields: "ids" i64 [sequence], bytes in order, and "label" i64 [sequence], the byte after each.
// With `predicted` that number of bytes is chosen, and "label" is -100 elsewhere. "ids" shows 80 %
// of the chosen bytes as 256, 10 % as a random byte and the others unchanged (Devlin et al., BERT,
// NAACL 2019, section 3.1). The choice depends only on the sample number. Bytes at the end of a
// part that do not fill a sample are unused.
//
// INVALID_ARGUMENT: options out of range, or `path` is a directory. NOT_FOUND or PERMISSION_DENIED:
// the file cannot be opened. DATA_LOSS: a part is too short for one sample, or the file cannot be
// read to its end.
StatusOr<TrainAndTest> OpenText(const TextOptions& options);

}  // namespace tandem::reader
