// ResNet-18 and ResNet-50. Source: He et al., "Deep Residual Learning for Image Recognition", CVPR
// 2016, table 1 and option B. A block of three convolutions that halves the image has the stride in
// its 3x3 convolution, like PaddlePaddle and torchvision ("v1.5").
#include "trainer/models/zoo.h"

namespace tandem::trainer {
namespace {

struct Conv {
  int64_t channels, kernel, stride = 1;
};

std::string ConvNorm(graph::ProgramBuilder& builder, const std::string& x, const Conv& conv,
                     graph::Act act) {
  const std::string y = builder.Conv2d(x, {.channels = conv.channels,
                                           .kernel = conv.kernel,
                                           .stride = conv.stride,
                                           .padding = conv.kernel / 2,
                                           .bias = false});
  return builder.BatchNorm(y, act);
}

// Returns relu(x' + convs(x)). x' is x without `project`. With `project`, x' is a 1x1 convolution
// of x to the shape of convs(x).
std::string Block(graph::ProgramBuilder& builder, const std::string& x,
                  const std::vector<Conv>& convs, bool project) {
  std::string y = x;
  int64_t stride = 1;
  for (size_t i = 0; i < convs.size(); ++i) {
    y = ConvNorm(builder, y, convs[i],
                 i + 1 < convs.size() ? graph::Act::kRelu : graph::Act::kNone);
    stride *= convs[i].stride;
  }
  std::string shortcut = x;
  if (project)
    shortcut = ConvNorm(builder, x, {convs.back().channels, 1, stride}, graph::Act::kNone);
  return builder.Relu(builder.Add(y, shortcut));
}

std::string Stem(graph::ProgramBuilder& builder, ModelArgs& args, const std::string& images) {
  const int64_t kernel = args.Int("stem", 3, 7);
  if (kernel != 3 && kernel != 7) {
    args.Fail(InvalidArgument("model argument \"stem\" is %d, expected 3 or 7 [TD1202]", kernel));
  }
  const bool large = kernel == 7;
  const std::string x = ConvNorm(builder, images, {64, kernel, large ? 2 : 1}, graph::Act::kRelu);
  return large ? builder.Pool2d(x, {.max = true, .kernel = 3, .stride = 2, .padding = 1}) : x;
}

// Builds a ResNet. `blocks`: number of blocks in each of the four stages. `bottleneck`: true:
// blocks have three convolutions; false: two.
std::string Build(graph::ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                  int64_t classes, const std::vector<int64_t>& blocks, bool bottleneck) {
  std::string x = Stem(builder, args, images);
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int64_t c = int64_t{64} << stage;
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const bool first = block == 0;
      const int64_t stride = first && stage > 0 ? 2 : 1;
      const std::vector<Conv> convs = bottleneck
                                          ? std::vector<Conv>{{c, 1}, {c, 3, stride}, {4 * c, 1}}
                                          : std::vector<Conv>{{c, 3, stride}, {c, 3}};
      x = Block(builder, x, convs, first && (bottleneck || stage > 0));
    }
  }
  return builder.Fc(builder.Pool2d(x, {.max = false, .global = true}), classes);
}

}  // namespace

std::string BuildResnet18(graph::ProgramBuilder& builder, ModelArgs& args,
                          const std::string& images, const std::vector<int64_t>&, int64_t classes) {
  return Build(builder, args, images, classes, {2, 2, 2, 2}, false);
}

std::string BuildResnet50(graph::ProgramBuilder& builder, ModelArgs& args,
                          const std::string& images, const std::vector<int64_t>&, int64_t classes) {
  return Build(builder, args, images, classes, {3, 4, 6, 3}, true);
}

}  // namespace tandem::trainer
