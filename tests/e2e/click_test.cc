// Networks on categorical columns, from a csv file to the same bits in every mode.
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

constexpr char kJob[] = R"(
name: "click"
model {
  zoo: "deepfm"
  arg { name: "fields" value: "3" }
  arg { name: "rows" value: "45" }
  arg { name: "dim" value: "4" }
  arg { name: "hidden" value: "16" }
}
data {
  format: "csv"
  dir: "."
  csv {
    train_file: "train.csv"
    test_file: "test.csv"
    label_column: "click"
    positive_label: "1"
    negative_label: "0"
    column { name: "user" ids: 22 }
    column { name: "item" kind: HASH ids: 13 }
    column { name: "age" kind: NUMERIC ids: 10 }
    bad_records_max: 1
  }
}
optimizer { type: "adam" learning_rate: 0.01 }
global_batch_size: 64
epochs: 4
)";

class ClickTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    Write("job.pbtxt", kJob);
    Write("train.csv", Table(0, 2000) + "u1,i1,none,1\n");
    Write("test.csv", Table(2000, 3000));
  }
  // The label depends on the user, on the age and on whether user and item suit each other.
  static std::string Table(int begin, int end) {
    std::string text = "user,item,age,click\n";
    for (int i = begin; i < end; ++i) {
      const int user = i * 7919 % 20, item = i * 104729 % 6, age = i * 31 % 60;
      const bool click = (user % 3 == item % 3) != (age < 20 && user > 5);
      text += absl::StrFormat("u%d, i%d, %d, %d\n", user, item, 10 + age, click ? 1 : 0);
    }
    return text;
  }
};

TEST_F(ClickTest, LearnsWithTheSameBitsDenseAndSparse) {
  const JobRun dense = RunJob("dense", {"--mode=local"}, {});
  ASSERT_FALSE(HasFailure());
  EXPECT_GT(dense.result.auc, 0.9);
  EXPECT_THAT(dense.output, testing::HasSubstr("train.csv:2002: column \"age\": \"none\""));
  std::string job = ReadWholeFile(job_);
  job.replace(job.find("model {"), 7, "model { arg { name: \"sparse\" value: \"1\" }");
  Write("job.pbtxt", job);
  const JobRun sparse = RunJob("sparse", {"--mode=local"}, {});
  EXPECT_EQ(sparse.result.params_sha256, dense.result.params_sha256);
  EXPECT_EQ(sparse.result.auc, dense.result.auc);
  const JobRun collective = RunJob("collective", {"--mode=collective", "--nproc=2"}, {});
  const JobRun pserver = RunJob("pserver", {"--servers=2", "--workers=2"}, {});
  EXPECT_EQ(pserver.result.params_sha256, collective.result.params_sha256);
  EXPECT_EQ(pserver.result.auc, collective.result.auc);
  for (const JobRun* run : {&collective, &pserver}) {
    EXPECT_THAT(run->output, testing::HasSubstr("2 sparse gradients are sent whole"));
  }
  EXPECT_NEAR(pserver.result.auc, dense.result.auc, 0.01);
}

TEST_F(ClickTest, ATableThatIsTooSmallIsNamedAtTheStart) {
  std::string job = ReadWholeFile(job_);
  job.replace(job.find("\"45\""), 4, "\"44\"");
  Write("job.pbtxt", job);
  const auto child = StartJob("small", {"--mode=local"}, {});
  EXPECT_NE(child->Wait(), 0);
  EXPECT_THAT(child->Output(), testing::HasSubstr("give model argument rows=45"));
}

constexpr char kWordJob[] = R"(
name: "words"
model {
  zoo: "word2vec"
  arg { name: "rows" value: "20" }
  arg { name: "dim" value: "8" }
}
data {
  format: "skipgram"
  dir: "."
  skipgram { file: "text" vocabulary: 20 window: 2 test_share: 0.2 }
}
optimizer { type: "adagrad" learning_rate: 0.2 }
global_batch_size: 128
epochs: 2
)";

// Ten words of each of two subjects; a sentence is about one. What is near is known by subject.
TEST_F(ClickTest, WordVectorsLearnWhatStandsTogether) {
  std::string text;
  for (int sentence = 0; sentence < 300; ++sentence) {
    for (int i = 0; i < 10; ++i) {
      text += sentence % 2 == 0 ? "x" : "y";
      text += static_cast<char>('a' + (sentence * 7 + i * i * 3 + sentence * i) % 10);
      text += i == 9 ? ".\n" : " ";
    }
  }
  Write("text", text);
  Write("job.pbtxt", kWordJob);
  const JobRun local = RunJob("local", {"--mode=local"}, {});
  EXPECT_GT(local.result.auc, 0.7);
  const JobRun collective = RunJob("collective", {"--mode=collective", "--nproc=2"}, {});
  const JobRun pserver = RunJob("pserver", {"--servers=2", "--workers=2"}, {});
  EXPECT_EQ(pserver.result.params_sha256, collective.result.params_sha256);
  EXPECT_NEAR(pserver.result.auc, local.result.auc, 0.01);
}

}  // namespace
}  // namespace tandem
