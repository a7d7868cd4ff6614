// cudnn_exhaustive_search, conv_search_cache and conv_workspace_size_limit on a CUDA place. cuDNN
// is a stand-in (tests/cuda_on_host) with three reproducible algorithms: number 0 needs no
// workspace, 1 and 2 need one. The stand-in also has two algorithms that Tandem must not use.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/support/built_program.h"
#include "tests/support/cuda_on_host_job.h"

namespace tandem::trainer {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kConvolutions = R"(
name: "convolutions"
model { zoo: "residual_cnn" arg { name: "channels" value: "4,8" } arg { name: "blocks" value: "1" }
        arg { name: "image" value: "1,8,8" } }
data {
  format: "synthetic"
  synthetic { image: 1 image: 8 image: 8 classes: 10 samples: 64 test_samples: 16 }
}
optimizer { type: "sgd" learning_rate: 0.05 }
global_batch_size: 8
seed: 3
)";

class DeviceConv : public CudaOnHostTest {
 protected:
  void SetUp() override {
    CudaOnHostTest::SetUp();
    job_ = Write("convolutions.pbtxt", kConvolutions);
  }
  struct Trained {
    JobResult result;
    std::string output;
    std::string asked;  // the log of cuDNN calls, one line per call
  };
  Trained Train(const std::string& name, const std::string& place, Args flags) const {
    flags.push_back("--steps_max=4");
    const JobRun run = Run(name, place, flags);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return {run.result, run.output, place == "cpu" ? "" : Log(name)};
  }
  Trained Search(const std::string& name, Args flags = {}) const {
    flags.push_back("--cudnn_exhaustive_search=true");
    return Train(name, "cuda", flags);
  }
  std::string Cache() const { return ReadWholeFile(Path("conv_algorithms.txt")); }
  // Rewrites the times in the file so that `fastest` is the fastest algorithm of every problem.
  void Prefer(const std::string& fastest) {
    std::vector<std::string> lines = absl::StrSplit(Cache(), '\n');
    for (std::string& line : lines) {
      std::vector<std::string> fields = absl::StrSplit(line, '\t');
      for (std::string& field : fields) {
        const std::vector<std::string> parts = absl::StrSplit(field, ' ');
        if (parts.size() != 3) continue;
        field = absl::StrCat(parts[0], parts[0] == fastest ? " 1.0 " : " 9.0 ", parts[2]);
      }
      line = absl::StrJoin(fields, "\t");
    }
    Write("conv_algorithms.txt", absl::StrJoin(lines, "\n"));
  }
};

const std::vector<std::string> kParts = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                         "cudnnConvolutionBackwardFilter"};

void ExpectOnly(const std::string& asked, const std::string& algorithm) {
  for (const std::string& part : kParts) {
    for (const std::string other : {"algorithm0", "algorithm1", "algorithm2"}) {
      const std::string call = absl::StrCat(part, " ", other, "\n");
      if (other == algorithm) {
        EXPECT_THAT(asked, HasSubstr(call));
      } else {
        EXPECT_THAT(asked, Not(HasSubstr(call)));
      }
    }
  }
}

TEST_F(DeviceConv, WhatWasMeasuredIsKept) {
  const Trained first = Search("first");
  EXPECT_THAT(first.output, Not(HasSubstr("convolutions: 0 measured")));
  for (const std::string part : {"output of conv2d f32[", "input's gradient of conv2d_grad f32[",
                                 "filter's gradient of conv2d_grad f32["}) {
    EXPECT_THAT(Cache(), HasSubstr("CUDA on host; 1 multiprocessors; cuDNN 90000\t" + part));
  }
  // The file lists all usable algorithms with the size of their workspace in bytes. The largest
  // workspace has the size of 8 images of 4 x 8 x 8 in f64.
  EXPECT_THAT(Cache(), HasSubstr("\talgorithm0 "));
  EXPECT_THAT(Cache(), HasSubstr(absl::StrCat(" ", 8 * 4 * 8 * 8 * sizeof(double), "\t")));
  EXPECT_THAT(Cache(), Not(HasSubstr("algorithm3")));
  const std::string file = Cache();
  const Trained second = Search("second");
  EXPECT_THAT(second.output, HasSubstr("convolutions: 0 measured"));
  EXPECT_EQ(second.result.params_sha256, first.result.params_sha256);
  EXPECT_EQ(Cache(), file);
  EXPECT_NEAR(first.result.loss, Train("cpu", "cpu", {}).result.loss, 1e-4);
}

TEST_F(DeviceConv, TheFileDecides) {
  Search("first");
  for (const std::string fastest : {"algorithm0", "algorithm1", "algorithm2"}) {
    Prefer(fastest);
    ExpectOnly(Search(fastest).asked, fastest);
  }
}

// The trainer does not use an algorithm whose workspace is larger than the limit. A change of the
// limit needs no new measurements.
TEST_F(DeviceConv, WorkspacesStayWithinTheLimit) {
  const Args none = {"--conv_workspace_size_limit=0"};
  ExpectOnly(Train("rule", "cuda", {}).asked, "algorithm1");
  ExpectOnly(Train("rule_none", "cuda", none).asked, "algorithm0");
  EXPECT_EQ(Cache(), "") << "only who asks for it searches";
  Search("first");
  Prefer("algorithm1");
  const Trained limited = Search("limited", none);
  ExpectOnly(limited.asked, "algorithm0");
  EXPECT_THAT(limited.output, HasSubstr("convolutions: 0 measured"));
}

TEST_F(DeviceConv, AnotherLibrarysMeasurementsDoNotCount) {
  Search("first");
  Write("conv_algorithms.txt", absl::StrReplaceAll(Cache(), {{"cuDNN 90000", "cuDNN 80000"}}));
  EXPECT_THAT(Search("second").output, Not(HasSubstr("convolutions: 0 measured")));
  EXPECT_THAT(Cache(), HasSubstr("cuDNN 80000\t"));
  EXPECT_THAT(Cache(), HasSubstr("cuDNN 90000\t"));
}

TEST_F(DeviceConv, HalfNumbersAreProblemsOfTheirOwn) {
  const Args half = {"--amp=true", "--amp_dtype=f16"};
  Search("whole");
  EXPECT_THAT(Cache(), Not(HasSubstr("f16[")));
  EXPECT_THAT(Search("half", half).output, Not(HasSubstr("convolutions: 0 measured")));
  EXPECT_THAT(Cache(), HasSubstr("output with its epilogue of conv2d f16["));
  Prefer("algorithm2");
  ExpectOnly(Search("again", half).asked, "algorithm2");
}

// The measured algorithms include execution plans of cuDNN's graph API ("graphN"). A later start
// restores only the chosen plan. N is the position of the plan in the stand-in's proposals. Plans 0
// and 1 are unusable: plan 0 gives different bits in each run, and plan 1 needs too much memory.
TEST_F(DeviceConv, AGraphMayBeTheFastest) {
  const Args half = {"--amp=true", "--amp_dtype=bf16"};
  Search("first", half);
  for (const std::string fastest : {"graph2", "graph3"}) {
    Prefer(fastest);
    const std::string asked = Search(fastest, half).asked;
    const bool second = fastest == "graph3";
    for (const std::string graph : {"conv add", "conv_input", "conv_filter"}) {
      const std::string run = "cudnnBackendExecute " + graph, by = run + " by the second\n";
      EXPECT_EQ(absl::StrContains(asked, run + "\n"), !second);
      EXPECT_EQ(absl::StrContains(asked, by), second);
      EXPECT_THAT(asked, HasSubstr("cuDNN restores " + graph + "\n"));
    }
    EXPECT_THAT(asked, Not(HasSubstr("cuDNN compiles")));
    EXPECT_THAT(asked, Not(HasSubstr("cudnnConvolutionBackward")));
  }
}

// The file names an algorithm that no longer exists. The trainer must then choose the algorithm by
// its rule, as without a file, and not use plain loops.
TEST_F(DeviceConv, WhatIsNotToBeHadAnyMoreIsChosenByRule) {
  const Args half = {"--amp=true", "--amp_dtype=bf16"};
  Search("first", half);
  Write("conv_algorithms.txt", absl::StrReplaceAll(Cache(), {{"graph2", "graph"}}));
  Prefer("graph");
  const auto runs = [](const Trained& trained) {
    std::string lines;
    for (const auto line : absl::StrSplit(trained.asked, '\n')) {
      if (absl::StartsWith(line, "cudnn")) absl::StrAppend(&lines, line, "\n");
    }
    return lines;
  };
  const Trained by_rule = Train("by_rule", "cuda", half), again = Search("again", half);
  EXPECT_THAT(again.output, HasSubstr("convolutions: 0 measured"));
  EXPECT_THAT(runs(again), HasSubstr("cudnnBackendExecute conv_filter\n"));
  EXPECT_EQ(runs(again), runs(by_rule));
}

// Convolutions with and without a bias. With 16-bit values the relu is part of cuDNN's graph. With
// f32 a separate call computes the relu.
TEST_F(DeviceConv, ReluIsPartOfAConvolution) {
  graph::ProgramBuilder b("relus", 8);
  std::string x = b.Data("img", DType::kF32, {1, 8, 8});
  for (const bool bias : {true, false}) {
    x = b.Conv2d(
        x, {.channels = 16, .kernel = 3, .padding = 1, .bias = bias, .act = graph::Act::kRelu});
  }
  b.SoftmaxLoss(b.Fc(x, 10), b.Data("label", DType::kI64, {1}));
  Write("program.pbtxt", TextOf(b));
  const std::string zoo = "model {", data = "data {";
  std::string job = kConvolutions;
  job.replace(job.find(zoo), job.find(data) - job.find(zoo),
              "model { program: \"program.pbtxt\" }\n");
  job_ = Write("relus.pbtxt", job);
  for (const Args& type : {Args{}, Args{"--amp=true", "--amp_dtype=bf16"}}) {
    const std::string name = type.empty() ? "f32" : "bf16";
    Args on = type;
    on.push_back("--fuse_elewise_add_act_ops=true");
    const Trained plain = Train(name, "cuda", type), fused = Train(name + "_fused", "cuda", on);
    EXPECT_THAT(fused.output, HasSubstr("pass fuse_elewise_add_act_ops.conv: 2 places"));
    EXPECT_EQ(fused.result.params_sha256, plain.result.params_sha256) << name;
    for (const std::string graph : {"conv add relu", "conv relu"}) {
      const std::string run = "cudnnBackendExecute " + graph + "\n";
      EXPECT_EQ(absl::StrContains(fused.asked, run), !type.empty()) << name;
      EXPECT_THAT(plain.asked, Not(HasSubstr(run)));
    }
  }
}

// On the device, 16-bit images have the layout with channels last. The losses are near those of the
// CPU. Shapes, parameters and fetched values have the usual layout.
TEST_F(DeviceConv, HalfImagesHaveTheirChannelsLast) {
  for (const std::string type : {"f16", "bf16"}) {
    const Args half = {"--amp=true", "--amp_dtype=" + type};
    const Trained cuda = Train("cuda_" + type, "cuda", half);
    EXPECT_THAT(cuda.output, ContainsRegex("pass amp.channels_last: [0-9]+ places"));
    EXPECT_NEAR(cuda.result.loss, Train("cpu_" + type, "cpu", half).result.loss, 2e-2);
  }
  const Trained whole = Train("whole", "cuda", {});
  EXPECT_THAT(whole.output, Not(HasSubstr("channels_last")));
}

}  // namespace
}  // namespace tandem::trainer
