// The program of a model for predictions, with its inputs, outputs and tables.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/types.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/serving/model_source.h"

namespace tandem::trainer {

// An input or output. Its first dimension is the number of samples.
struct ServedTensor {
  std::string name;
  TensorDesc sample;  // type, and shape of one sample: the dimensions after the first
  // Inputs that are ids of a table: the ids must be at least 0 and below the number of rows of each
  // of the tables. 0: the input has no such limit.
  int64_t limit = 0;
};

struct ServingProgram {
  graph::Program program;
  std::vector<ServedTensor> inputs, outputs;
  std::vector<ServedTable> tables;  // tables whose rows the predictor reads for each batch

  // Makes the program. `forward`: the forward program of a job. `outputs`: the variables to
  // compute; empty: the predictions (graph::PredictionsOf). Each parameter that `dense` lacks is a
  // table whose rows are read one by one. Errors:
  // - NOT_FOUND: `dense` lacks a variable that is not such a table, or an output does not exist.
  // - INVALID_ARGUMENT: an input or output does not have the samples as its first dimension.
  // - FAILED_PRECONDITION: as CheckValues. UNIMPLEMENTED: the samples are decoded in the program.
  static StatusOr<ServingProgram> Make(const graph::Program& forward,
                                       std::vector<std::string> outputs, const DenseValues& dense);

  // Checks that `dense` has all variables of the program with their sizes. NOT_FOUND: a variable is
  // missing. FAILED_PRECONDITION: a variable has another size or type.
  Status CheckValues(const DenseValues& dense) const;
  // Copies the values of the program's variables from `dense` into `scope`, which must have them
  // (exec::Initialize). REQUIRES: CheckValues accepts `dense`. No predictor with this scope may
  // run.
  void PutValues(const DenseValues& dense, exec::Scope& scope) const;
  // Returns whether the program writes one of its stored variables, although the value stays equal:
  // batch_norm does. Threads must not share a scope then.
  bool writes_stored() const;
};

}  // namespace tandem::trainer
