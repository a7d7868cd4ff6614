// The model zoo: networks by name, with arguments. docs/contributing/recipes.md explains how to add
// one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::trainer {

struct ModelArgDoc {
  std::string name, default_value, doc;
};

struct ModelDoc {
  std::string name, doc;
  std::vector<ModelArgDoc> args;
};

// Returns all models of the zoo, in the order of the list.
std::vector<ModelDoc> ListModels();

// Returns the list of models as text, for `--list_models`.
std::string ListModelsText();

// Checks the name of a zoo model and the names of its arguments. BuildModel checks the values.
// Returns the errors of BuildModel for wrong names.
Status CheckModelNames(const std::string& name, const std::map<std::string, std::string>& args);

// The forward program of zoo model `name` with its loss and metrics. Data variables and metrics:
//   image classifiers    "img" [batch, channels, height, width] (f32), "label" [batch, 1] (i64);
//                        accuracy
//   wide_deep, deepfm    "ids" [batch, fields], "label" [batch, 1] (i64); auc
//   word2vec             "center", "target", "label" [batch, 1 + negatives] (i64); auc
// The loss is the mean cross entropy: of a softmax for image classifiers, of sigmoids for the
// others. `args`: ModelArg of proto/job.proto, by name; absent ones have their defaults. BindBatch
// changes `batch` later. NOT_FOUND: unknown model. INVALID_ARGUMENT: unknown argument or bad value;
// the message has the nearest name or the accepted range.
StatusOr<Program> BuildModel(const std::string& name,
                             const std::map<std::string, std::string>& args, int64_t batch);

}  // namespace tandem::trainer
