// Internal to trainer/models: the functions that build the networks, each in a separate file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/graph/builder.h"
#include "trainer/models/model_args.h"

namespace tandem::trainer {

// Builds a whole forward program: data variables, layers, loss and metrics. Errors are kept in
// `builder` and `args`.
using BuildModelFn = void (*)(ProgramBuilder& builder, ModelArgs& args);

void BuildWideDeep(ProgramBuilder& builder, ModelArgs& args);
void BuildDeepFm(ProgramBuilder& builder, ModelArgs& args);
void BuildWord2Vec(ProgramBuilder& builder, ModelArgs& args);
void BuildBert(ProgramBuilder& builder, ModelArgs& args);
void BuildTransformerLm(ProgramBuilder& builder, ModelArgs& args);

// Builds the layers of an image classifier between the image and the logits.
//   images: the variable [batch, dims...], dims = {channels, height, width}
// Returns the variable of the logits [batch, classes]. Errors are kept in `builder` and `args`.
using BuildLogitsFn = std::string (*)(ProgramBuilder& builder, ModelArgs& args,
                                      const std::string& images, const std::vector<int64_t>& dims,
                                      int64_t classes);

std::string BuildSoftmax(ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                         const std::vector<int64_t>& dims, int64_t classes);
std::string BuildMlp(ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                     const std::vector<int64_t>& dims, int64_t classes);
std::string BuildLenet(ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                       const std::vector<int64_t>& dims, int64_t classes);
std::string BuildResidualCnn(ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                             const std::vector<int64_t>& dims, int64_t classes);
std::string BuildVgg16(ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                       const std::vector<int64_t>& dims, int64_t classes);
std::string BuildResnet18(ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                          const std::vector<int64_t>& dims, int64_t classes);
std::string BuildResnet50(ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                          const std::vector<int64_t>& dims, int64_t classes);
std::string BuildMobilenetV1(ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                             const std::vector<int64_t>& dims, int64_t classes);

}  // namespace tandem::trainer
