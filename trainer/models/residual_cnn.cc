// A small residual network without batch normalisation. Blocks and stages follow He et al., "Deep
// Residual Learning for Image Recognition", CVPR 2016, section 4.2 (CIFAR-10). If a block changes
// the shape, its shortcut has a 1x1 convolution (option B of the paper).
#include "trainer/models/zoo.h"

namespace tandem::trainer {
namespace {

// Returns relu(x' + conv(relu(conv(x)))). x' is x without `project`, and a 1x1 convolution of x
// with `project`.
std::string ResidualBlock(graph::ProgramBuilder& builder, const std::string& x, int64_t channels,
                          int64_t stride, bool project) {
  std::string y = builder.Conv2d(x, {.channels = channels,
                                     .kernel = 3,
                                     .stride = stride,
                                     .padding = 1,
                                     .act = graph::Act::kRelu});
  y = builder.Conv2d(y, {.channels = channels, .kernel = 3, .padding = 1});
  std::string shortcut = x;
  if (project) shortcut = builder.Conv2d(x, {.channels = channels, .kernel = 1, .stride = stride});
  return builder.Relu(builder.Add(shortcut, y));
}

}  // namespace

std::string BuildResidualCnn(graph::ProgramBuilder& builder, ModelArgs& args,
                             const std::string& images, const std::vector<int64_t>&,
                             int64_t classes) {
  const auto channels = args.Ints("channels", 1, 8, 1, 4096);
  const int64_t blocks = args.Int("blocks", 1, 100);
  std::string x = builder.Conv2d(
      images, {.channels = channels[0], .kernel = 3, .padding = 1, .act = graph::Act::kRelu});
  for (size_t stage = 0; stage < channels.size(); ++stage) {
    for (int64_t block = 0; block < blocks; ++block) {
      const bool first_of_later_stage = stage > 0 && block == 0;
      x = ResidualBlock(builder, x, channels[stage], first_of_later_stage ? 2 : 1,
                        first_of_later_stage);
    }
  }
  return builder.Fc(builder.Pool2d(x, {.max = false, .global = true}), classes);
}

}  // namespace tandem::trainer
