// Internal to trainer/models: the functions that build the networks, each in a separate file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/graph/builder.h"
#include "trainer/models/model_args.h"

namespace tandem::trainer {

// Builds a whole forward program: data variables, layers, loss and metrics. `builder` and `args`
// record the errors.
using BuildModelFn = void (*)(graph::ProgramBuilder& builder, ModelArgs& args);

void BuildMlp(graph::ProgramBuilder& builder, ModelArgs& args);
void BuildWideDeep(graph::ProgramBuilder& builder, ModelArgs& args);
void BuildDeepFm(graph::ProgramBuilder& builder, ModelArgs& args);
void BuildWord2Vec(graph::ProgramBuilder& builder, ModelArgs& args);
void BuildBert(graph::ProgramBuilder& builder, ModelArgs& args);
void BuildTransformerLm(graph::ProgramBuilder& builder, ModelArgs& args);

constexpr int64_t kSideMax = 65536;  // largest image side and number of classes

// Builds the layers of an image classifier between the image and the logits.
//   images: the variable [batch, dims...], dims = {channels, height, width}
// Returns the variable of the logits [batch, classes]. `builder` and `args` record the errors.
using BuildLogitsFn = std::string (*)(graph::ProgramBuilder& builder, ModelArgs& args,
                                      const std::string& images, const std::vector<int64_t>& dims,
                                      int64_t classes);

std::string BuildSoftmax(graph::ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                         const std::vector<int64_t>& dims, int64_t classes);
std::string BuildLenet(graph::ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                       const std::vector<int64_t>& dims, int64_t classes);
std::string BuildResidualCnn(graph::ProgramBuilder& builder, ModelArgs& args,
                             const std::string& images, const std::vector<int64_t>& dims,
                             int64_t classes);
std::string BuildVgg16(graph::ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                       const std::vector<int64_t>& dims, int64_t classes);
std::string BuildResnet18(graph::ProgramBuilder& builder, ModelArgs& args,
                          const std::string& images, const std::vector<int64_t>& dims,
                          int64_t classes);
std::string BuildResnet50(graph::ProgramBuilder& builder, ModelArgs& args,
                          const std::string& images, const std::vector<int64_t>& dims,
                          int64_t classes);
std::string BuildMobilenetV1(graph::ProgramBuilder& builder, ModelArgs& args,
                             const std::string& images, const std::vector<int64_t>& dims,
                             int64_t classes);

}  // namespace tandem::trainer
