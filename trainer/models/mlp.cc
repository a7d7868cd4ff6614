// Fully connected networks: softmax regression (no hidden layer) and the multi-layer perceptron.
#include "trainer/models/zoo.h"

namespace tandem::trainer {

std::string BuildSoftmax(graph::ProgramBuilder& builder, ModelArgs&, const std::string& images,
                         const std::vector<int64_t>&, int64_t classes) {
  return builder.Fc(images, classes);
}

std::string BuildMlp(graph::ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                     const std::vector<int64_t>&, int64_t classes) {
  std::string x = images;
  for (int64_t units : args.Ints("hidden", 1, 1000, 1, 65536))
    x = builder.Fc(x, units, graph::Act::kRelu);
  return builder.Fc(x, classes);
}

}  // namespace tandem::trainer
