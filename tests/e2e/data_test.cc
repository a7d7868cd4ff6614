// Tests jobs that read data files of several formats. Every mode must give the same bits.
#include <filesystem>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "tests/support/jpeg_test_util.h"
#include "tests/support/png_test_util.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;

// The first %s is replaced by further arguments of the model, the second %s by further fields of
// `data`.
constexpr char kJob[] = R"(
name: "data"
model {
  zoo: "deepfm"
  arg { name: "dim" value: "4" }
  arg { name: "hidden" value: "16" }
  arg { name: "sparse" value: "1" }
  %s
}
data {
  dir: "."
  max_bad_records: 1
  %s
}
optimizer { type: "adam" learning_rate: 0.02 }
global_batch_size: 64
epochs: 3
)";

// Returns lines of Criteo's format. The label depends on column C1, on the size of the number in
// I1, and on whether C2 is missing.
std::string CriteoLines(int begin, int end) {
  std::string text;
  for (int i = begin; i < end; ++i) {
    const int kind = i * 7919 % 20, size = i * 104729 % 5;
    const bool missing = i * 31 % 3 == 0;
    const bool click = (kind % 3 == 0) != (size > 2 && !missing);
    text += absl::StrFormat("%d\t%d", click ? 1 : 0, size == 0 ? 0 : 1 << (4 * size));
    for (int n = 2; n <= 13; ++n) text += n == 5 ? "\t" : absl::StrFormat("\t%d", i % n);
    text += absl::StrFormat("\t%08x\t%s", 0x68fd1e64 + kind, missing ? "" : "a73ee510");
    for (int c = 3; c <= 26; ++c) text += absl::StrFormat("\t%08x", c * 77);
    text += "\n";
  }
  return text;
}

// The label is the sign of a weighted sum of values. The weight of a value depends on its index.
std::string LibSvmLines(int begin, int end) {
  std::string text;
  for (int i = begin; i < end; ++i) {
    std::string features;
    double sum = 0;
    for (int f = 1 + i % 3; f < 30; f += 1 + (i + f) % 7) {
      const double value = (i * 7919 + f * 31) % 200 / 100.0 - 1;
      sum += f % 2 == 0 ? value : -value;
      features += absl::StrFormat(" %d:%g", f, value);
    }
    text += (sum > 0 ? "+1" : "-1") + features + "\n";
  }
  return text;
}

class DataTest : public JobTest {
 protected:
  void WriteJob(const std::string& args, const std::string& data) {
    Write("job.pbtxt", absl::StrFormat(kJob, args, data));
  }
  // Runs the job in every mode. The parameters of pserver mode and collective mode must have the
  // same bits, and the area under the curve (AUC) must be at least `auc`. Returns the output of the
  // local run.
  std::string RunModes(double auc) {
    const JobRun local = RunJob("local", {"--mode=local"}, {});
    const JobRun collective = RunJob("collective", {"--mode=collective", "--nproc=2"}, {});
    const JobRun pserver = RunJob("pserver", {"--servers=2", "--workers=2"}, {});
    EXPECT_GT(local.result.auc, auc);
    EXPECT_EQ(pserver.result.params_sha256, collective.result.params_sha256);
    EXPECT_EQ(pserver.result.auc, collective.result.auc);
    EXPECT_NEAR(pserver.result.auc, local.result.auc, 0.01);
    return local.output;
  }
};

TEST_F(DataTest, CriteoWithNumbersAsIdsAndAsNumbers) {
  Write("train.txt", CriteoLines(0, 4000) + "1\tbad\n");
  Write("test.txt", CriteoLines(4000, 5000));
  const std::string files = "train_file: \"train.txt\" test_file: \"test.txt\"";
  const std::string rows = std::to_string(13 * 64 + 26 * 100);
  WriteJob("arg { name: \"fields\" value: \"39\" } arg { name: \"rows\" value: \"" + rows + "\" }",
           "format: \"criteo\" criteo { " + files + " category_ids: 100 number_ids: 64 }");
  EXPECT_THAT(RunModes(0.95), HasSubstr("train.txt:4001: the record has 2 fields, expected 40"));
  WriteJob(
      "arg { name: \"fields\" value: \"26\" } arg { name: \"rows\" value: \"2600\" } "
      "arg { name: \"dense\" value: \"13\" }",
      "format: \"criteo\" criteo { " + files + " category_ids: 100 numbers: DENSE }");
  const JobRun dense = RunJob("dense", {"--mode=local"}, {});
  EXPECT_GT(dense.result.auc, 0.85);
}

TEST_F(DataTest, LibSvm) {
  Write("all.libsvm", LibSvmLines(0, 5000));
  WriteJob(
      "arg { name: \"fields\" value: \"30\" } arg { name: \"rows\" value: \"31\" } "
      "arg { name: \"values\" value: \"1\" }",
      "format: \"libsvm\" libsvm { train_file: \"all.libsvm\" test_share: 0.2 ids: 31 "
      "features_max: 30 }");
  RunModes(0.9);
}

// If record files have the same samples as a text file, the job gives the same bits, even if the
// fields are in another order.
TEST_F(DataTest, RecordFilesGiveTheBitsOfTheTextTheyWereMadeOf) {
  Write("train.libsvm", LibSvmLines(0, 2000));
  Write("test.libsvm", LibSvmLines(2000, 2500));
  const std::string args =
      "arg { name: \"fields\" value: \"30\" } arg { name: \"rows\" value: \"31\" } "
      "arg { name: \"values\" value: \"1\" }";
  WriteJob(args,
           "format: \"libsvm\" libsvm { train_file: \"train.libsvm\" test_file: \"test.libsvm\" "
           "ids: 31 features_max: 30 }");
  const JobRun text = RunJob("text", {"--mode=local"}, {"--epochs=1"});
  const auto convert = [this](const std::string& to, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"data", "convert", job_, Path(to)};
    words.insert(words.end(), more.begin(), more.end());
    ChildProcess tandem("tandem", words, {}, Path("convert.out"));
    EXPECT_EQ(tandem.Wait(), 0) << tandem.Output();
  };
  convert("train", {"--to=recordio", "--shards=1"});
  convert("test", {"--part=test"});
  WriteJob(args,
           "format: \"tfrecord\" examples { train_file: \"train\" test_file: \"test\" "
           "feature { name: \"ids\" kind: INT64 dim: 30 limit: 31 } "
           "feature { name: \"label\" kind: INT64 dim: 1 limit: 2 } "
           "feature { name: \"values\" kind: FLOAT dim: 30 } }");
  const JobRun records = RunJob("records", {"--mode=local"}, {"--epochs=1"});
  EXPECT_EQ(records.result.params_sha256, text.result.params_sha256);
  EXPECT_EQ(records.result.auc, text.result.auc);
}

// Images are red or blue. A job that resumes in the middle of an epoch crops the same rectangles
// from the images as an undisturbed job.
TEST_F(DataTest, ListsOfImages) {
  std::string list;
  for (int i = 0; i < 64; ++i) {
    const int width = 40 + i % 9, height = 50 - i % 7, label = i * 7 % 3 == 0 ? 1 : 0;
    const std::string name = absl::StrFormat("%d.jpg", i);
    Write(name, RedOrBlueJpeg(i, label, width, height));
    list += absl::StrFormat("%s %d\n", name, label);
  }
  Write("list.txt", list);
  Write("job.pbtxt", R"(
name: "images"
model {
  zoo: "softmax"
  arg { name: "image" value: "3,16,16" }
  arg { name: "classes" value: "2" }
}
data {
  format: "images"
  dir: "."
  images { train_list: "list.txt" test_list: "list.txt" classes: 2 size: 16 resize: 18 }
}
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 8
epochs: 6
)");
  const JobRun local = RunJob("local", {"--mode=local"}, {});
  EXPECT_GT(local.result.accuracy, 0.95);
  const JobRun pserver = RunJob("pserver", {"--servers=1", "--workers=2"}, {});
  const JobRun collective = RunJob("collective", {"--mode=collective", "--nproc=2"}, {});
  EXPECT_EQ(pserver.result.params_sha256, collective.result.params_sha256);
  const std::vector<std::string> keep = {"--checkpoint.dir=" + Path("kept"),
                                         "--checkpoint.every_steps=5"};
  std::vector<std::string> some = keep;
  some.push_back("--steps_max=21");
  RunJob("begin", {"--mode=local"}, some);
  const JobRun resumed = RunJob("resumed", {"--mode=local"}, keep);
  EXPECT_EQ(resumed.result.params_sha256, local.result.params_sha256);
}

// Images of directories, half of them PNG. The model gets its classes from the directories, and
// every mode has the same training images.
TEST_F(DataTest, DirectoriesOfImages) {
  for (int i = 0; i < 80; ++i) {
    const int label = i % 2;
    const char* const directory = label == 1 ? "red" : "blue/more";
    std::filesystem::create_directories(Path(std::string("pets/") + directory));
    const bool png = i % 4 < 2;
    const std::string name = absl::StrFormat("pets/%s/%02d.%s", directory, i, png ? "png" : "jpg");
    Write(name, png ? EncodePng(RedOrBluePixels(i, label, 40, 50), 40, 50, 3)
                    : RedOrBlueJpeg(i, label, 40 + i % 9, 50));
  }
  Write("pets/list.txt", "not an image");
  Write("job.pbtxt", R"(
name: "directories"
model { zoo: "softmax" }
data {
  format: "images"
  dir: "."
  images { folder: "pets" split: "0.7/0.1/0.2" size: 16 }
}
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 8
epochs: 6
)");
  const JobRun local = RunJob("local", {"--mode=local"}, {});
  EXPECT_GT(local.result.accuracy, 0.9);
  EXPECT_THAT(local.output, HasSubstr("the classes are blue, red"));
  EXPECT_THAT(local.output, HasSubstr("ignored 1 files"));
  const JobRun pserver = RunJob("pserver", {"--servers=1", "--workers=2"}, {});
  const JobRun collective = RunJob("collective", {"--mode=collective", "--nproc=2"}, {});
  EXPECT_EQ(pserver.result.params_sha256, collective.result.params_sha256);
  EXPECT_EQ(collective.result.accuracy, local.result.accuracy);
}

TEST_F(DataTest, OneBadRecordTooMany) {
  Write("train.txt", CriteoLines(0, 100) + "1\tbad\n" + CriteoLines(0, 3) + "0\n");
  WriteJob("arg { name: \"fields\" value: \"39\" } arg { name: \"rows\" value: \"10000000\" }",
           "format: \"criteo\" criteo { train_file: \"train.txt\" test_share: 0.5 }");
  const auto job = StartJob("bad", {"--mode=local"}, {});
  EXPECT_NE(job->Wait(), 0);
  EXPECT_THAT(job->Output(), HasSubstr("train.txt:105: the record has 1 fields, expected 40"));
}

}  // namespace
}  // namespace tandem
