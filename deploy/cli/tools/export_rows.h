// Rows of tables that pservers keep alone, from a trainer's checkpoint, for whoever serves them.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/tensor/device.h"
#include "trainer/files/safetensors.h"

namespace tandem::deploy {

// Which rows are worth serving. Source: Save of Paddle's CtrAccessor with its modes 0, 2 and 1.
struct RowChoice {
  enum class Mode : uint8_t {
    kFull,  // all
    kBase,  // with a score (common/tensor/table_rules.h) of base_threshold, and seen in the last
            // ...
    kDelta  // ... and of which the score grew by delta_threshold since the checkpoint `since`
  };
  Mode mode = Mode::kFull;
  double base_threshold = 1.5, delta_threshold = 0.25;
  int64_t delta_keep = 0;  // versions without a gradient; 0: any number
  std::string since;       // path of a tables.rows
};

// Of each table of the file `path` (trainer/ps/table_file.h) NAME/ids, i64 [n], ascending in each
// bucket, and NAME/rows, f32 [n, dim], as a pull gives them. In memory, all that is chosen.
StatusOr<TensorMap> ChooseRows(const std::string& path, const RowChoice& choice, Device& device);

}  // namespace tandem::deploy
