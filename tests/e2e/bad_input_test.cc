// Tests errors of users: the program must end at once, with a clear message and the right exit
// code.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;

class BadInputTest : public JobTest {
 protected:
  void Expect(const std::vector<std::string>& args, int exit_code,
              const std::vector<std::string>& messages) const {
    std::vector<std::string> all = {"--job_file=" + job_};
    all.insert(all.end(), args.begin(), args.end());
    ChildProcess trainer("tandem-trainer", all, {}, Path("out"));
    const std::string what = testing::PrintToString(args);
    EXPECT_EQ(trainer.Wait(), exit_code) << what << "\n" << trainer.Output();
    for (const std::string& message : messages) {
      EXPECT_THAT(trainer.Output(), HasSubstr(message)) << what;
    }
  }
};

TEST_F(BadInputTest, FlagsAndKnobs) {
  struct Case {
    std::vector<std::string> args;
    int exit_code;
    std::vector<std::string> messages;
  };
  const std::vector<Case> cases = {
      {{"--a_sinc=true"}, 2, {"a_sinc", "did you mean", "a_sync"}},
      {{"--mode=pserver", "--min_block_size=0"}, 2, {"min_block_size", "1"}},
      {{"--mode=collective", "--elastic=true"}, 2, {"elastic", "tandemrun --nproc=MIN:MAX"}},
      {{"--amp=true", "--amp_configs.custom_white_list=softmax_with_cross_entropy"},
       2,
       {"no 16-bit form"}},
      {{"--mode=collective", "--a_sync=true"}, 2, {"a_sync", "mode=collective"}},
      {{"--model.zoo=lennet"}, 2, {"lennet", "did you mean \"lenet\""}},
      {{"--optimizer.type=momentun"}, 2, {"\"momentun\""}},
      {{"--epochs=0"}, 2, {"epochs", "expected above 0"}},
      {{"--data.max_bad_records=-1"}, 2, {"data.max_bad_records is -1, expected 0 to "}},
      {{"--data.train_samples_max=4294967296"}, 2, {"expected 0 to 4294967295 [TD1104]"}},
      {{"--data.reader_threads=1025"}, 2, {"data.reader_threads", "expected 0 to 1024 [TD1104]"}},
      {{"--batch_size=64"}, 2, {"exactly one of batch_size"}},
      {{"--mode=hybrid"}, 2, {"HYBRID needs pservers"}},
      {{"--data.dir=/nowhere/at/all"}, 2, {"/nowhere/at/all"}},
      {{"--epochs"}, 2, {"--epochs", "needs a value"}},
  };
  for (const Case& c : cases) Expect(c.args, c.exit_code, c.messages);
}

TEST_F(BadInputTest, EveryWorkerNeedsASample) {
  const auto job = StartJob("odd", {"--mode=collective", "--nproc=2"}, {"--global_batch_size=1"});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_THAT(job->Output(), HasSubstr("a batch of 1 samples is too small for 2 workers with 1 "
                                       "places each: every place needs a sample [TD2006]"));
}

TEST_F(BadInputTest, APlaceWithoutDriver) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine has a driver";
  // A build without CUDA has no CUDA module.
  const std::string module =
      std::string(std::getenv("TANDEM_BIN_DIR")) + "/../lib/libtandem_cuda.so";
  const bool built = std::filesystem::exists(module);
  Expect({"--place=cuda"}, 2,
         {"--place=cuda cannot be used",
          built ? "this machine has no NVIDIA driver" : "libtandem_cuda.so",
          built ? "[TD5002]" : "[TD5001]"});
}

TEST_F(BadInputTest, EveryErrorOfAFileAtOnce) {
  Write("job.pbtxt", "nmae: \"x\"\nmodel { zoo: 7 }\nepochs: \"three\"\n");
  Expect({}, 2, {"job.pbtxt:1:1: error", "did you mean", "job.pbtxt:2:", "job.pbtxt:3:"});
}

TEST_F(BadInputTest, DamagedData) {
  const std::string images = "train-images-idx3-ubyte.gz", labels = "train-labels-idx1-ubyte.gz";
  const std::string data = Path("data");
  const auto fresh = [&] {
    std::filesystem::remove_all(data);
    std::filesystem::create_directory(data);
    for (const auto& entry : std::filesystem::directory_iterator(kFashionMnist)) {
      std::filesystem::create_symlink(entry.path(), data + "/" + entry.path().filename().string());
    }
    ASSERT_TRUE(std::filesystem::exists(data + "/" + images));
  };
  const auto replace = [&](const std::string& name, const std::string& bytes) {
    std::filesystem::remove(data + "/" + name);
    Write("data/" + name, bytes);
  };
  const std::string whole = ReadWholeFile(absl::StrCat(kFashionMnist, "/", labels));

  fresh();
  replace(labels, whole.substr(0, whole.size() / 2));
  Expect({"--data.dir=" + data}, 65, {labels});
  fresh();
  replace(images, std::string("\0\0\x08\x07\0\0\0\x01\0\0\0\x1c\0\0\0\x1c", 16));
  Expect({"--data.dir=" + data}, 65, {images});
  fresh();
  replace(labels, ReadWholeFile(absl::StrCat(kFashionMnist, "/t10k-labels-idx1-ubyte.gz")));
  Expect({"--data.dir=" + data}, 65, {"60000", "10000"});
}

}  // namespace
}  // namespace tandem
