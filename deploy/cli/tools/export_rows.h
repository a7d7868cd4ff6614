// Exports rows of tables that are stored only on pservers, from a trainer's checkpoint, for
// serving.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/tensor/device.h"
#include "trainer/files/safetensors.h"

namespace tandem::deploy {

// The choice of rows to serve. Source: Save of Paddle's CtrAccessor with its modes 0, 2 and 1.
struct RowChoice {
  enum class Mode : uint8_t {
    kFull,  // all
    kBase,  // rows with a score (common/tables/table_rules.h) of base_threshold, seen in the last
            // delta_keep versions
    kDelta  // as kBase, if the score grew by delta_threshold since the checkpoint `since`
  };
  Mode mode = Mode::kFull;
  double base_threshold = 1.5, delta_threshold = 0.25;
  int64_t delta_keep = 0;  // versions without a gradient; 0: any number
  std::string since;       // path of a tables.rows
};

// Reads the file `path` (trainer/ps/table_file.h). Returns two tensors for each table: NAME/ids,
// i64 [n], ascending in each row bucket, and NAME/rows, f32 [n, dim], as a pull returns them. All
// chosen rows are in memory.
StatusOr<trainer::TensorMap> ChooseRows(const std::string& path, const RowChoice& choice,
                                        Device& device);

}  // namespace tandem::deploy
