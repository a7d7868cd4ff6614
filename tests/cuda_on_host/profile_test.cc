// Tests profile.dir on a CUDA place: the profile shows the work of the device and of the host.
// CUPTI is a stand-in (tests/support/fake_cupti.cc) over the CUDA of host memory.
#include <dlfcn.h>

#include <map>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "kernels/exec/trace/device_trace.h"
#include "tests/support/cuda_on_host_job.h"

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

std::string FakeCupti() {
  return std::string(std::getenv("TANDEM_BIN_DIR")) + "/../tests/cuda_on_host/lib/libcupti.so.13";
}

TEST(DeviceTrace, EachSpanKnowsWhoStartedIt) {
  const auto trace = exec::DeviceTrace::Start(FakeCupti());
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(exec::DeviceTrace::Start(FakeCupti()).status().code(), StatusCode::kUnavailable);
  void* const library = dlopen(FakeCupti().c_str(), RTLD_LAZY);
  ASSERT_NE(library, nullptr);
  const auto now = reinterpret_cast<uint64_t (*)()>(dlsym(library, "tandem_fake_cupti_now"));
  const auto ran =
      reinterpret_cast<void (*)(const char*, uint64_t)>(dlsym(library, "tandem_fake_cupti_ran"));
  const Time before = SteadyNow();
  (*trace)->Enter(7);
  ran("kernel", now());
  ran("copy", now());
  (*trace)->Leave();
  ran("fill", now());
  const Time after = SteadyNow();
  auto spans = (*trace)->Take();
  ASSERT_TRUE(spans.ok()) << spans.status();
  ASSERT_EQ(spans->size(), 3u);
  const std::vector<std::pair<uint64_t, std::string>> want = {
      {7, "tandem::MapKernel"}, {7, "copy"}, {0, "fill"}};
  // Maximum difference of the two clocks. The test reads one clock after the other and may be
  // suspended in between.
  constexpr auto kSlack = std::chrono::seconds(5);
  for (size_t i = 0; i < want.size(); ++i) {
    const exec::DeviceSpan& span = (*spans)[i];
    EXPECT_EQ(std::pair(span.id, span.what), want[i]);
    EXPECT_LE(span.begin, span.end);
    EXPECT_GT(span.begin, before - kSlack);
    EXPECT_LT(span.end, after + kSlack);
  }
  spans = (*trace)->Take();
  ASSERT_TRUE(spans.ok());
  EXPECT_TRUE(spans->empty());
}

TEST(DeviceTrace, WithoutCuptiThatIsSaid) {
  const Status status = exec::DeviceTrace::Start("/nowhere/libcupti.so").status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("CUPTI (libcupti.so): "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/libcupti.so"));
}

class DeviceProfile : public CudaOnHostTest {
 protected:
  JobRun Profiled(const std::string& name, Args flags = {}, const Env& env = {}) const {
    flags.insert(flags.end(), {"--steps_max=6", "--profile.dir=" + Path(name),
                               "--profile.first_step=2", "--profile.steps=3"});
    return Run(name, "cuda", flags, env);
  }
};

TEST_F(DeviceProfile, KernelsAreInTableAndTimeline) {
  const JobRun plain = Run("plain", "cuda", {"--steps_max=6"});
  const JobRun run = Profiled("profiled");
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(run.result.params_sha256, plain.result.params_sha256);
  EXPECT_THAT(run.output, HasSubstr("profile of 3 steps"));
  EXPECT_THAT(run.output, HasSubstr("conv2d (device)"));
  EXPECT_THAT(run.output, HasSubstr("device: busy "));
  const json trace = json::parse(ReadWholeFile(Path("profiled/timeline.0.json")), nullptr, false);
  ASSERT_TRUE(trace.is_object());
  int host = 0, device = 0, fed = 0;
  std::set<int> threads;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["args"]["name"] == "device, stream 0") {
      threads.insert(event["tid"].get<int>());
    }
    if (event["ph"] != "X") continue;
    const bool of_conv = event["cat"] == "forward" && event["args"].value("op", -1) == 0;
    host += of_conv && event["tid"] == 0;
    device += of_conv && threads.contains(event["tid"].get<int>());
    fed += event["name"] == "copy" && event["args"].value("op", -1) == -1;
  }
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_EQ(host, 3);
  EXPECT_EQ(device, 3);
  EXPECT_GE(fed, 3 * 2);  // each step feeds images and labels
}

// A profile shows single operators, so the job does not use graphs while it is profiled.
TEST_F(DeviceProfile, WithGraphs) {
  const JobRun plain = Profiled("plain"), run = Profiled("graphs", {"--cuda_graph=true"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(run.result.params_sha256, plain.result.params_sha256);
  EXPECT_THAT(run.output, HasSubstr("launches were reduced to 1\n"));
  EXPECT_THAT(run.output, HasSubstr("conv2d (device)"));
}

TEST_F(DeviceProfile, WhatCuptiRefusesIsSaidOnceAndTheRestGoesOn) {
  const JobRun run = Profiled("refused", {}, {{"TANDEM_FAKE_CUPTI_FAULT", "privileges"}});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(
      run.output,
      HasSubstr("no times of the device: the CUPTI call "
                "cuptiActivityEnable failed: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (UNAVAILABLE)"));
  EXPECT_THAT(run.output, HasSubstr("profile of 3 steps"));
  EXPECT_THAT(run.output, HasSubstr("conv2d "));
  EXPECT_THAT(run.output, Not(HasSubstr("(device)")));
}

}  // namespace
}  // namespace tandem
