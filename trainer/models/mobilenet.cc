// MobileNet. Source: Howard et al., "MobileNets: Efficient Convolutional Neural Networks for Mobile
// Vision Applications", 2017, table 1.
#include <algorithm>

#include "trainer/models/zoo.h"

namespace tandem::trainer {
namespace {

std::string ConvNormRelu(graph::ProgramBuilder& builder, const std::string& x,
                         graph::ConvArgs args) {
  args.padding = args.kernel / 2;
  args.bias = false;
  return builder.BatchNorm(builder.Conv2d(x, args), graph::Act::kRelu);
}

}  // namespace

std::string BuildMobilenetV1(graph::ProgramBuilder& builder, ModelArgs& args,
                             const std::string& images, const std::vector<int64_t>&,
                             int64_t classes) {
  struct Layer {
    int64_t channels, stride;
  };
  const int64_t width = args.Int("width", 1, 400), stem = args.Int("stem", 1, 2);
  const auto scaled = [width](int64_t channels) {
    return std::max<int64_t>(1, channels * width / 100);
  };
  int64_t channels = scaled(32);
  std::string x =
      ConvNormRelu(builder, images, {.channels = channels, .kernel = 3, .stride = stem});
  for (const Layer& layer : {Layer{64, 1},
                             {128, 2},
                             {128, 1},
                             {256, 2},
                             {256, 1},
                             {512, 2},
                             {512, 1},
                             {512, 1},
                             {512, 1},
                             {512, 1},
                             {512, 1},
                             {1024, 2},
                             {1024, 1}}) {
    x = ConvNormRelu(
        builder, x,
        {.channels = channels, .kernel = 3, .stride = layer.stride, .groups = channels});
    channels = scaled(layer.channels);
    x = ConvNormRelu(builder, x, {.channels = channels, .kernel = 1});
  }
  return builder.Fc(builder.Pool2d(x, {.max = false, .global = true}), classes);
}

}  // namespace tandem::trainer
