// runtime_flags.use_dali: an operator of the program makes the samples. The samples have the same
// bits on every place and in every mode.
#include "gmock/gmock.h"
#include "tests/support/cuda_on_host_job.h"
#include "tests/support/device_job_test.h"
#include "tests/support/jpeg_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

constexpr const char* kOn = "--use_dali=true";

// A job over a list of 64 images of two colours. One image is too large to be packed whole.
template <typename Base>
class WithImages : public Base {
 protected:
  void SetUp() override {
    Base::SetUp();
    if (Base::IsSkipped()) return;
    std::string list;
    for (int i = 0; i < 64; ++i) {
      const int width = i == 9 ? 900 : 40 + i % 9, height = i == 9 ? 700 : 50 - i % 7;
      const int label = i * 7 % 3 == 0 ? 1 : 0;
      const std::string name = absl::StrFormat("%d.jpg", i);
      Base::Write(name, RedOrBlueJpeg(i, label, width, height));
      list += absl::StrFormat("%s %d\n", name, label);
    }
    Base::Write("list.txt", list);
    UseModel("zoo: \"softmax\" arg { name: \"image\" value: \"3,16,16\" }", "NCHW");
  }

  void UseModel(const std::string& model, const std::string& layout) {
    constexpr const char* kJob = R"(
name: "images"
model { %s arg { name: "classes" value: "2" } }
data {
  format: "images"
  dir: "."
  images {
    train_list: "list.txt" test_list: "list.txt" classes: 2 size: 16 resize: 18 layout: %s
    mean: 0.5 mean: 0.4 mean: 0.3 stddev: 0.2 stddev: 0.3 stddev: 0.25
  }
}
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 8
epochs: 2
log_every_steps: 1
)";
    Base::job_ = Base::Write("job.pbtxt", absl::StrFormat(kJob, model, layout));
  }

  static Flags With(Flags flags, const Flags& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  // Expects that the jobs `off` and `on` ended with the same bits. Only the program of `on` must
  // have the operator, and the steps of `on` must receive fewer bytes.
  static void ExpectSame(const std::string& name, const JobRun& off, const JobRun& on) {
    SCOPED_TRACE(name);
    ASSERT_EQ(off.exit_code, 0) << off.output;
    ASSERT_EQ(on.exit_code, 0) << on.output;
    EXPECT_EQ(on.result.params_sha256, off.result.params_sha256);
    EXPECT_EQ(on.result.loss, off.result.loss);
    EXPECT_EQ(on.result.accuracy, off.result.accuracy);
    EXPECT_EQ(on.result.counts.count("ops.sample_image"), 1u);
    EXPECT_EQ(off.result.counts.count("ops.sample_image"), 0u);
    const auto fed = [](const JobRun& run) { return run.result.counts.at("feed_bytes"); };
    EXPECT_LT(fed(on), 0.8 * fed(off));
    EXPECT_GT(fed(on), 0);
  }
};

class UseDali : public WithImages<JobTest> {
 protected:
  void ExpectSameBits(const std::string& name, const Flags& launch, const Flags& flags) {
    ExpectSame(name, RunJob(name + "_off", launch, flags),
               RunJob(name, launch, With(flags, {kOn})));
  }
};

TEST_F(UseDali, TheStepMakesTheReadersSamplesOutOfBytes) {
  ExpectSameBits("local", {"--mode=local"}, {});
  const auto fed = ResultOf("local_off").counts.at("feed_bytes");
  EXPECT_EQ(fed, 16 * 8 * (3 * 16 * 16 * 4 + 8)) << "16 steps of floats, and labels";
  UseModel("zoo: \"softmax\" arg { name: \"image\" value: \"16,16,3\" }", "NHWC");
  ExpectSameBits("channels last", {"--mode=local"}, {});
}

// Each part of a batch uses the pixels that belong to its samples.
TEST_F(UseDali, PartsOfBatchesRanksAndPlaces) {
  ExpectSameBits("parts", {"--mode=local"}, {"--batch_merge_repeats=4"});
  ExpectSameBits("places", {"--mode=local"}, {"--cpu_num=2"});
  ExpectSameBits("ranks", {"--mode=collective", "--nproc=2"}, {});
  ExpectSameBits("on demand", {"--mode=local"}, {"--use_double_buffer=false"});
}

// A job with the knob resumes in the middle of an epoch that began without the knob.
TEST_F(UseDali, AJobGoesOnWithTheSamplesOfOneThatWasNeverStopped) {
  const JobRun whole = RunJob("whole", {"--mode=local"}, {});
  const Flags keep = {"--checkpoint.dir=" + Path("kept"), "--checkpoint.every_steps=5"};
  RunJob("begin", {"--mode=local"}, With(keep, {"--steps_max=5"}));
  RunJob("middle", {"--mode=local"}, With(keep, {"--steps_max=11", kOn}));
  const JobRun end = RunJob("end", {"--mode=local"}, With(keep, {kOn}));
  EXPECT_EQ(end.result.steps, 5) << "of 16";
  EXPECT_EQ(end.result.params_sha256, whole.result.params_sha256);
}

TEST_F(UseDali, IsRefusedWhereItHasNoImages) {
  const auto refused = [this](const std::string& name, const Flags& flags) {
    const auto job = StartJob(name, {"--mode=local"}, With(flags, {kOn}));
    EXPECT_NE(job->Wait(), 0);
    return job->Output();
  };
  const std::string format = refused("format", {"--data.format=synthetic"});
  EXPECT_THAT(format, HasSubstr("data.format is \"synthetic\""));
  EXPECT_THAT(format, HasSubstr("format: \"images\""));
  EXPECT_THAT(refused("size", {"--data.images.size=20", "--data.images.resize=24"}),
              HasSubstr("is f32[8,3,16,16], but data.images makes f32[8,3,20,20]"));
}

// Uses the stand-in for CUDA in host memory. These tests check the kernel of the CUDA module.
class UseDaliOnHost : public WithImages<CudaOnHostTest> {};

TEST_F(UseDaliOnHost, TheDeviceMakesTheSamples) {
  for (const Flags& flags : {Flags{"--steps_max=6"}, Flags{"--steps_max=6", "--cuda_graph=true"},
                             Flags{"--steps_max=6", "--batch_merge_repeats=2"},
                             Flags{"--steps_max=6", "--amp=true", "--amp_dtype=bf16"}}) {
    const JobRun off = Run("off", "cuda", flags);
    ExpectSame(flags.back(), off, Run("on", "cuda", With(flags, {kOn})));
    ExpectSame(flags.back() + " on demand", off,
               Run("late", "cuda", With(flags, {kOn, "--use_double_buffer=false"})));
  }
}

// Uses the stand-in device, whose streams are threads and whose memory is accessible only to
// kernels and copies. These tests check the copies.
class UseDaliOnDevice : public WithImages<DeviceJobTest> {};

TEST_F(UseDaliOnDevice, TheNextBatchIsCopiedBesideThePresentOne) {
  const JobRun cpu = Run("cpu", {});
  ExpectSame("device", cpu, Run("device", OnDevice({kOn})));
  ExpectSame("parts", Run("parts_off", {"--batch_merge_repeats=4"}),
             Run("parts", OnDevice({"--batch_merge_repeats=4", kOn})));
  const JobRun floats = Run("floats", OnDevice({}));
  EXPECT_EQ(floats.result.params_sha256, cpu.result.params_sha256);
}

// The reader may detect a damaged image during an earlier step. The job must report the image at
// the step whose batch contains the image.
TEST_F(UseDaliOnDevice, ADamagedImageEndsTheJobAtItsStep) {
  Write("5.jpg", "no image");
  const JobRun cpu = Run("cpu", {kOn}), device = Run("device", OnDevice({kOn}));
  const auto steps = [](const JobRun& run) {
    int64_t count = 0;
    for (size_t at = 0; (at = run.output.find("loss", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_NE(cpu.exit_code, 0);
  EXPECT_EQ(device.exit_code, cpu.exit_code);
  EXPECT_EQ(steps(device), steps(cpu));
  for (const JobRun* run : {&cpu, &device}) {
    EXPECT_THAT(run->output, HasSubstr("5.jpg: the file is neither a JPEG nor a PNG"));
  }
}

TEST_F(UseDaliOnDevice, OneBatchAgainAndAgain) {
  const JobRun run = Run("speed", OnDevice({kOn, "--reader_queue_speed_test_mode=true"}));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(run.result.steps, 16);
}

}  // namespace
}  // namespace tandem::trainer
