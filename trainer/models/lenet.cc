// LeNet-5 with relu and max pooling. Source: LeCun et al., "Gradient-Based Learning Applied to
// Document Recognition", Proc. IEEE 1998. The first layer pads by 2, so images of 28x28 become the
// paper's 32x32.
#include "trainer/models/zoo.h"

namespace tandem::trainer {

std::string BuildLenet(graph::ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                       const std::vector<int64_t>& dims, int64_t classes) {
  const auto channels = args.Ints("channels", 2, 2, 1, 4096);
  const auto hidden = args.Ints("hidden", 0, 16, 1, 65536);
  // Checks that at least one pixel remains after all layers: a convolution with padding 2, a
  // pooling by 2, a 5x5 convolution without padding, and a pooling by 2.
  if (dims[1] < 12 || dims[2] < 12) {
    args.Fail(InvalidArgument(
        "model \"lenet\": the images have %dx%d pixels, expected at least 12x12 [TD1202]", dims[1],
        dims[2]));
    return "";
  }
  std::string x = builder.Conv2d(
      images, {.channels = channels[0], .kernel = 5, .padding = 2, .act = graph::Act::kRelu});
  x = builder.Pool2d(x, {.max = true, .kernel = 2, .stride = 2});
  x = builder.Conv2d(x, {.channels = channels[1], .kernel = 5, .act = graph::Act::kRelu});
  x = builder.Pool2d(x, {.max = true, .kernel = 2, .stride = 2});
  for (int64_t units : hidden) x = builder.Fc(x, units, graph::Act::kRelu);
  return builder.Fc(x, classes);
}

}  // namespace tandem::trainer
