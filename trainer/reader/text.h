// Windows of a plain text: what language models train on. Every byte is a token.
#pragma once

#include <string>

#include "trainer/reader/dataset.h"

namespace tandem {

struct TextOptions {
  std::string path;
  int64_t sequence = 128;    // bytes of a sample
  int64_t stride = 0;        // from the start of one sample to that of the next; 0: sequence
  double test_share = 0.1;   // of the text, at its end
  int64_t predicted = 0;     // bytes of a sample that are to be found from the others; 0: see below
  uint32_t samples_max = 0;  // the first so many training samples; 0: all
};

// Fields: "ids" i64 [sequence], bytes in their order, and "label" i64 [sequence], the byte behind
// each. With `predicted` that many bytes are chosen and "label" is -100 elsewhere; of those chosen
// "ids" shows 80 % as 256, 10 % as a random byte and the others as they are (Devlin et al., BERT,
// NAACL 2019, section 3.1). What is chosen depends on the number of the sample alone. The bytes at
// the end of a part that fill no sample are left out. INVALID_ARGUMENT for options out of range or
// a folder, NOT_FOUND or PERMISSION_DENIED for the file, DATA_LOSS for a text too short for one
// sample in both parts, or one that cannot be read to its end.
StatusOr<TrainAndTest> OpenText(const TextOptions& options);

}  // namespace tandem
