// Tests graphs with the real cuDNN for devices that this machine need not have. cuDNN gets the
// properties of a device from the test, proposes engines and compiles their kernels. No kernel runs
// (tests/support/fake_driver.cc). tests/cuda_on_host and tests on a device check the results of
// graphs.
#include "kernels/ops/cuda/dnn_graph.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/ops/conv/conv_graph.h"
#include "kernels/ops/norm/batch_norm_graph.h"

namespace tandem {
namespace {

struct Card {
  const char* name;
  const char* json;
};
constexpr Card kCards[] = {{"H200", R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 62914560, "totalGlobalMem": 150754820096,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1})"},
                           {"A100", R"({
  "deviceName": "NVIDIA A100-SXM4-80GB", "deviceVer": 800, "driverVer": 13000, "cudaDeviceId": 0,
  "multiProcessorCount": 108, "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 166912,
  "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 41943040, "totalGlobalMem": 85095874560,
  "smClockRateKHz": 1410000, "memClockRateKHz": 1593000, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1})"}};

// Runs each test once per card, with the properties of that card.
class DnnGraphs : public testing::TestWithParam<Card> {
 protected:
  void SetUp() override {
    auto device = ops::DnnDeviceFrom(GetParam().json);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  // Checks that the graph has a plan, and that the plan's text gives the same plan again.
  void ExpectPlan(const ops::DnnGraph& graph, size_t workspace_max) {
    const auto plan = graph.MakePlan(device_, workspace_max);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto text = plan->text();
    ASSERT_TRUE(text.ok()) << text.status();
    const auto again = ops::DnnPlan::Restore(device_, *text);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->workspace(), plan->workspace());
  }
  void ExpectNone(const ops::DnnGraph& graph) {
    EXPECT_EQ(graph.MakePlan(device_, SIZE_MAX).status().code(), StatusCode::kUnimplemented);
  }

  ops::DnnDescriptor device_;
};
INSTANTIATE_TEST_SUITE_P(Of, DnnGraphs, testing::ValuesIn(kCards),
                         [](const auto& card) { return std::string(card.param.name); });

// Tests the normalisations of ResNet-50, each size once.
TEST_P(DnnGraphs, NormalisationsOfResNet50) {
  struct {
    int64_t channels, side;
    bool relu, z;
  } const norms[] = {{64, 112, true, false},  {64, 56, true, false},  {256, 56, true, true},
                     {256, 56, false, false}, {128, 28, true, false}, {512, 28, true, true},
                     {256, 14, true, false},  {1024, 14, true, true}, {512, 7, true, false},
                     {2048, 7, false, false}, {2048, 7, true, true},  {128, 56, true, false}};
  for (const auto& n : norms) {
    SCOPED_TRACE(testing::Message() << n.channels << " channels of " << n.side);
    const ops::BatchNormGraphShape s = {CUDNN_DATA_HALF, 128,    n.channels,
                                        n.side * n.side, n.relu, n.z};
    ExpectPlan(ops::BatchNormGraph(s).graph, ops::kBatchNormWorkspace);
    ExpectPlan(ops::BatchNormGradGraph(s).graph, ops::kBatchNormWorkspace);
  }
}

TEST_P(DnnGraphs, NormalisationsOfEveryType) {
  for (const auto type : {CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT}) {
    for (const bool relu : {false, true}) {
      const ops::BatchNormGraphShape s = {type, 4, 16, 25, relu, relu};
      ExpectPlan(ops::BatchNormGraph(s).graph, ops::kBatchNormWorkspace);
      ExpectPlan(ops::BatchNormGradGraph(s).graph, ops::kBatchNormWorkspace);
    }
  }
}

// If the channels of a pixel do not fill whole pieces of 16 bytes, cuDNN has no plan. Therefore the
// kernels require whole pieces.
TEST_P(DnnGraphs, OtherChannelsHaveNoPlan) {
  ExpectNone(ops::BatchNormGraph({CUDNN_DATA_HALF, 4, 12, 25, true, true}).graph);
  ExpectNone(ops::BatchNormGradGraph({CUDNN_DATA_HALF, 4, 12, 25, true, true}).graph);
  ExpectNone(ops::BatchNormGraph({CUDNN_DATA_FLOAT, 4, 6, 25, true, true}).graph);
}

ops::ConvShape Square(int64_t in_c, int64_t in, int64_t out_c, int64_t kernel, int64_t stride,
                      int64_t pad, int64_t groups = 1) {
  const int64_t out = (in + 2 * pad - kernel) / stride + 1;
  return {.batch = 32,
          .in_c = in_c,
          .out_c = out_c,
          .groups = groups,
          .in = {in, in},
          .out = {out, out},
          .kernel = {kernel, kernel},
          .stride = {stride, stride},
          .pad = {pad, pad},
          .dilation = {1, 1}};
}

constexpr size_t kConvWorkspace = size_t{256} << 20;

// Convolutions of LeNet, ResNeXt and MobileNet, and one convolution of each kind in ResNet-50.
TEST_P(DnnGraphs, ConvolutionsAndTheirGradients) {
  const ops::ConvShape convs[] = {
      Square(1, 28, 6, 5, 1, 2),         Square(6, 14, 16, 5, 1, 0),
      Square(3, 224, 64, 7, 2, 3),       Square(64, 56, 64, 1, 1, 0),
      Square(64, 56, 64, 3, 1, 1),       Square(64, 56, 256, 1, 1, 0),
      Square(128, 56, 128, 3, 2, 1),     Square(256, 56, 512, 1, 2, 0),
      Square(512, 7, 512, 3, 1, 1),      Square(2048, 7, 512, 1, 1, 0),
      Square(128, 56, 128, 3, 1, 1, 32), Square(32, 112, 32, 3, 1, 1, 32),
      Square(64, 112, 64, 3, 2, 1, 64),  Square(1024, 7, 1024, 3, 1, 1, 1024)};
  for (const ops::ConvShape& s : convs) {
    for (const auto type : {CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16}) {
      SCOPED_TRACE(testing::Message() << s.in_c << " to " << s.out_c << " channels of " << s.in[0]
                                      << " in " << s.groups << " groups, type " << type);
      ExpectPlan(ops::ConvOutputGraph(s, type, {}).graph, kConvWorkspace);
      ExpectPlan(ops::ConvInputGradGraph(s, type).graph, kConvWorkspace);
      ExpectPlan(ops::ConvFilterGradGraph(s, type).graph, kConvWorkspace);
    }
  }
}

// Convolutions of LeNet and VGG-16, and convolutions of ResNet-50, with bias and optionally relu.
TEST_P(DnnGraphs, ConvolutionsWithBiasAndRelu) {
  const ops::ConvShape convs[] = {Square(1, 28, 6, 5, 1, 2),     Square(6, 14, 16, 5, 1, 0),
                                  Square(3, 224, 64, 3, 1, 1),   Square(64, 224, 64, 3, 1, 1),
                                  Square(512, 14, 512, 3, 1, 1), Square(3, 224, 64, 7, 2, 3),
                                  Square(256, 56, 512, 1, 2, 0)};
  for (const ops::ConvShape& s : convs) {
    for (const bool relu : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.in_c << " to " << s.out_c << " channels");
      const auto type = relu ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
      ExpectPlan(ops::ConvOutputGraph(s, type, {.bias = true, .relu = relu}).graph, kConvWorkspace);
    }
  }
}

// A convolution has several different plans, so that a search can measure them.
TEST_P(DnnGraphs, SeveralPlansOfOneConvolution) {
  const ops::ConvShape s = Square(64, 56, 64, 3, 1, 1);
  for (const ops::ConvGraph& g :
       {ops::ConvOutputGraph(s, CUDNN_DATA_HALF, {}), ops::ConvInputGradGraph(s, CUDNN_DATA_HALF),
        ops::ConvFilterGradGraph(s, CUDNN_DATA_HALF)}) {
    std::set<std::string> texts;
    size_t made = 0;
    for (size_t number = 0; number < ops::DnnGraph::kFallback; ++number) {
      const auto plan = g.graph.MakeProposal(device_, number);
      if (!plan.ok()) continue;
      ++made;
      texts.insert(*plan->text());
    }
    EXPECT_EQ(texts.size(), made);
    EXPECT_GT(made, 1u);
  }
}

// A proposal has the same number, however many proposals are requested. Thus the number of a
// proposal can be stored.
TEST_P(DnnGraphs, AProposalIsTheSameAgain) {
  const ops::ConvShape s = Square(64, 56, 64, 3, 1, 1);
  const ops::ConvGraph g = ops::ConvOutputGraph(s, CUDNN_DATA_HALF, {});
  const auto best = g.graph.MakePlan(device_, kConvWorkspace);
  ASSERT_TRUE(best.ok()) << best.status();
  // Returns only the 200 characters about the engine. The characters after them are code that
  // contains uninitialised memory for some engines.
  const auto engine_of = [](const ops::DnnPlan& plan) {
    const std::string text = *plan.text();
    const size_t at = text.find("\"engine\":");
    EXPECT_NE(at, std::string::npos) << text;
    return text.substr(at, 200);
  };
  std::set<std::string> engines;
  for (size_t number = 0; number < ops::DnnGraph::kProposals; ++number) {
    const auto plan = g.graph.MakeProposal(device_, number);
    const auto again = g.graph.MakeProposal(device_, number);
    ASSERT_EQ(plan.ok(), again.ok()) << number;
    if (!plan.ok()) continue;
    EXPECT_EQ(engine_of(*plan), engine_of(*again)) << number;
    engines.insert(engine_of(*plan));
  }
  EXPECT_TRUE(engines.contains(engine_of(*best)));
  EXPECT_GT(engines.size(), 1u);
  EXPECT_FALSE(g.graph.MakeProposal(device_, ops::DnnGraph::kProposals).ok());
}

// cuDNN cannot add a bias to a grouped convolution in bf16. In this case a separate kernel must add
// the bias.
TEST_P(DnnGraphs, NoBiasBehindGroupsOfBf16) {
  const ops::ConvShape s = Square(32, 112, 32, 3, 1, 1, 32);
  ExpectNone(ops::ConvOutputGraph(s, CUDNN_DATA_BFLOAT16, {.bias = true}).graph);
}

TEST_P(DnnGraphs, WorkspaceIsLimited) {
  const ops::BatchNormGraph norm({CUDNN_DATA_HALF, 128, 512, 784, true, false});
  EXPECT_EQ(norm.graph.MakePlan(device_, 16).status().code(), StatusCode::kUnimplemented);
}

TEST(DnnGraphKeys, TellGraphsApart) {
  const auto key = [](bool swapped) {
    ops::DnnGraph g;
    const auto a = g.Channels(8), b = g.Channels(8), y = g.Channels(8);
    g.Pointwise(CUDNN_POINTWISE_ADD, swapped ? b : a, swapped ? a : b, y);
    return g.key();
  };
  EXPECT_EQ(key(false), key(false));
  EXPECT_NE(key(false), key(true));
  const ops::ConvShape one = Square(8, 14, 16, 3, 1, 1);
  ops::ConvShape other = one;
  other.pad[1] = 2;
  const auto of = [](const ops::ConvGraph& g) { return g.graph.key(); };
  EXPECT_NE(of(ops::ConvOutputGraph(one, CUDNN_DATA_HALF, {})),
            of(ops::ConvOutputGraph(other, CUDNN_DATA_HALF, {})));
  // Two graphs with the same tensor shapes but different operations have different keys.
  ops::ConvShape square = Square(16, 14, 16, 3, 1, 1);
  square.batch = 16;
  for (auto* size : {&square.in, &square.out, &square.kernel}) (*size)[0] = (*size)[1] = 3;
  EXPECT_NE(of(ops::ConvInputGradGraph(square, CUDNN_DATA_HALF)),
            of(ops::ConvFilterGradGraph(square, CUDNN_DATA_HALF)));
}

TEST_P(DnnGraphs, WhatIsNoPlansTextIsRefused) {
  for (const std::string text : {"", "{}", "no text"}) {
    EXPECT_FALSE(ops::DnnPlan::Restore(device_, text).ok()) << text;
  }
}

TEST(DnnDevices, WhatIsNoDeviceIsRefused) {
  EXPECT_FALSE(ops::DnnDeviceFrom("{}").ok());
  EXPECT_FALSE(ops::DnnDeviceFrom("").ok());
}

}  // namespace
}  // namespace tandem
