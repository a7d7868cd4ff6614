// Where a server of predictions gets the values of a model from: a checkpoint or running pservers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/tensor/device.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

// The parameters and states of a model that every prediction needs. Tables whose rows are read one
// by one are not part of it.
struct DenseValues {
  std::shared_ptr<CpuDevice> host = std::make_shared<CpuDevice>();  // has the memory of `tensors`
  std::string version;  // version of the values, for users: "step 1200", or the servers' updates
  TensorMap tensors;    // by variable, in host memory
};

// A table whose rows are read one by one.
struct ServedTable {
  std::string name;
  int64_t height = 0, dim = 0;  // number of rows, and of values of a row
  graph::Init init;             // initial values of a row
  std::string rules;            // the rules of the table, as table_rules in a program
};

// A source of values. Thread-safe. Functions block.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  // Returns the newest values. A fixed source returns its values only once.
  virtual StatusOr<std::shared_ptr<const DenseValues>> Dense() = 0;
  // Writes rows of a table to `to`, one pointer to `dim` floats for each id. A row that was never
  // trained has its initial values, or zeros if the rules of the table delay the creation of rows.
  // NOT_FOUND: the source has no such table. INVALID_ARGUMENT: the rows of the table have another
  // length than `dim`.
  virtual Status ReadRows(const ServedTable& table, std::span<const int64_t> ids,
                          std::span<float* const> to) = 0;
  // Returns whether the values never change.
  virtual bool fixed() const = 0;
};

}  // namespace tandem::trainer
