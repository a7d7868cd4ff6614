// The model zoo: networks by name, with arguments. docs/contributing/recipes.md explains how to add
// a network.
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

// Returns the forward program of zoo model `name` with its loss and metrics. The data variables and
// metrics are:
//   image classifiers    "img" [batch, channels, height, width] (f32), "label" [batch, 1] (i64);
//                        accuracy
//   mlp with features    "x" [batch, features] (f32), "label" [batch, 1 or outputs] (i64) or
//                        "target" [batch, outputs] (f32), "weight" [batch, 1] (f32) with weighted;
//                        accuracy, auc or no metric, depending on the loss
//   wide_deep, deepfm    "ids" [batch, fields], "label" [batch, 1] (i64), "values" [batch, fields]
//                        (f32) with values, "dense" [batch, dense] (f32) with dense; auc
//   word2vec             "center", "target", "label" [batch, 1 + negatives] (i64); auc
//   bert_base            "ids", "label" [batch, sequence] (i64); no metric
//   transformer_lm       "ids", "label" [batch, sequence] (i64); accuracy
// The loss is the mean cross entropy: of sigmoids for wide_deep, deepfm and word2vec, of a softmax
// for the other models. The argument `loss` of mlp selects another loss. `args`: values of
// arguments by name (ModelArg of proto/job.proto); other arguments have their defaults. BindBatch
// can change `batch` later. NOT_FOUND: there is no such model; the message has the nearest name.
// INVALID_ARGUMENT: an argument is unknown (the message has the nearest name), or its value is
// invalid (the message has the accepted range).
StatusOr<graph::Program> BuildModel(const std::string& name,
                                    const std::map<std::string, std::string>& args, int64_t batch);

}  // namespace tandem::trainer
