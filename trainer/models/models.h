// The model zoo: networks by name, with arguments. docs/adding.md has the recipe for a new one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem {

struct ModelArgDoc {
  std::string name, default_value, doc;
};

struct ModelDoc {
  std::string name, doc;
  std::vector<ModelArgDoc> args;
};

// All models, in the order in which they are listed.
std::vector<ModelDoc> ListModels();

// The same as text, for `--list_models`.
std::string ListModelsText();

// The forward program of zoo model `name` with its loss and its metrics. Image classifiers have the
// data variables "img" [batch, channels, height, width] (f32) and "label" [batch, 1] (i64), loss =
// mean softmax cross entropy, metrics = {accuracy}; networks on categorical columns "ids"
// [batch, fields] and "label" [batch, 1] (i64), loss = mean sigmoid cross entropy, metrics = {auc}.
// `args`: ModelArg of proto/job.proto, by name; absent ones take their defaults. BindBatch changes
// `batch` later. NOT_FOUND for an unknown model and INVALID_ARGUMENT for an unknown argument or a
// bad value, with the nearest name or the accepted range.
StatusOr<Program> BuildModel(const std::string& name,
                             const std::map<std::string, std::string>& args, int64_t batch);

}  // namespace tandem
