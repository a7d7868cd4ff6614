// Exports rows of tables that are only on pservers from a trainer's checkpoint, for serving.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/tensor/device.h"
#include "trainer/files/safetensors.h"

namespace tandem::deploy {

// The choice of the rows to export. Source: Save of Paddle's CtrAccessor with its modes 0, 2 and 1.
struct RowChoice {
  enum class Mode : uint8_t {
    kFull,  // all rows of the table
    // Rows with a score (common/tables/table_rules.h) of at least base_threshold and a gradient in
    // the last delta_keep versions.
    kBase,
    kDelta
  };
  Mode mode = Mode::kFull;
  double base_threshold = 1.5, delta_threshold = 0.25;
  int64_t delta_keep = 0;  // largest number of versions since a row's last gradient; 0: no limit
  std::string since;       // kDelta: path of tables.rows of the checkpoint of the last export
};

// Reads the file `path` (trainer/ps/table_file.h) and returns the chosen rows. Each table has two
// tensors: NAME/ids, i64 [n], ascending in each row bucket, and NAME/rows, f32 [n, dim], with the
// values that a pull returns. All chosen rows must fit into memory.
StatusOr<trainer::TensorMap> ChooseRows(const std::string& path, const RowChoice& choice,
                                        Device& device);

}  // namespace tandem::deploy
