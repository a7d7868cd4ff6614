// VGG-16. Source: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
// Recognition", ICLR 2015, configuration D. Differences: there is no dropout, and by default batch
// normalisation follows each convolution.
#include "trainer/models/zoo.h"

namespace tandem::trainer {

std::string BuildVgg16(graph::ProgramBuilder& builder, ModelArgs& args, const std::string& images,
                       const std::vector<int64_t>& dims, int64_t classes) {
  struct Stage {
    int convolutions;
    int64_t channels;
  };
  const auto hidden = args.Ints("hidden", 0, 16, 1, 65536);
  const bool norm = args.Int("batch_norm", 0, 1) == 1;
  if (dims[1] < 32 || dims[2] < 32) {
    args.Fail(InvalidArgument(
        "model \"vgg16\": the images have %dx%d pixels, expected at least 32x32 [TD1202]", dims[1],
        dims[2]));
    return "";
  }
  std::string x = images;
  for (const Stage& stage : {Stage{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}) {
    for (int i = 0; i < stage.convolutions; ++i) {
      x = builder.Conv2d(x, {.channels = stage.channels, .kernel = 3, .padding = 1, .bias = !norm});
      x = norm ? builder.BatchNorm(x, graph::Act::kRelu) : builder.Relu(x);
    }
    x = builder.Pool2d(x, {.max = true, .kernel = 2, .stride = 2});
  }
  for (const int64_t units : hidden) x = builder.Fc(x, units, graph::Act::kRelu);
  return builder.Fc(x, classes);
}

}  // namespace tandem::trainer
