// table_memory_mb and rocksdb_path: tables with more rows than fit into the servers' memory. The
// bits are those of tables in memory.
#include <filesystem>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Args = std::vector<std::string>;

constexpr char kJob[] = R"(
name: "memory"
model {
  zoo: "wide_deep"
  arg { name: "fields" value: "2" }
  arg { name: "rows" value: "60000" }
  arg { name: "dim" value: "16" }
  arg { name: "hidden" value: "8" }
  arg { name: "sparse" value: "1" }
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
    column { name: "user" kind: HASH ids: 30000 }
    column { name: "item" kind: HASH ids: 30000 }
  }
}
optimizer { type: "adagrad" learning_rate: 0.01 }
global_batch_size: 512
epochs: 2
)";

class TableMemoryTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    Write("job.pbtxt", kJob);
    Write("train.csv", Rows(20000));
    Write("test.csv", Rows(500));
  }
  static std::string Rows(int count) {
    std::string text = "user,item,click\n";
    for (int i = 0; i < count; ++i) {
      text += absl::StrFormat("u%d,i%d,%d\n", i * 7919 % 19997, i * 104729 % 9973, i % 3 == 0);
    }
    return text;
  }
  JobRun Train(const std::string& name, Args args) const {
    return RunJob(name, {"--servers=1", "--workers=2"}, args);
  }
  std::string Server(const std::string& name) const {
    return ReadWholeFile(Path(name + ".log/serverlog.0"));
  }
};

TEST_F(TableMemoryTest, RowsOutsideMemoryHaveTheSameBits) {
  const JobRun plain = Train("plain", {});
  ASSERT_FALSE(HasFailure());
  EXPECT_THAT(Server("plain"), Not(HasSubstr("outside memory")));
  const std::string path = Path("rows");
  const JobRun bounded = Train("bounded", {"--table_memory_mb=1", "--rocksdb_path=" + path});
  EXPECT_EQ(bounded.result.params_sha256, plain.result.params_sha256);
  EXPECT_EQ(bounded.result.auc, plain.result.auc);
  EXPECT_THAT(Server("bounded"),
              ContainsRegex("table [^ ]+: [0-9]+ rows, [1-9][0-9]* of them outside memory; "
                            "[1-9][0-9]* rows were read back into memory"));
  EXPECT_TRUE(std::filesystem::exists(path + "/cold-rows-0/CURRENT"));
}

TEST_F(TableMemoryTest, WhatCannotWorkIsRefusedByName) {
  std::string job = kJob;
  job.replace(job.find("\"adagrad\""), 9, "\"adam\"");
  Write("job.pbtxt", job);
  const auto fading = StartJob("fading", {"--servers=1", "--workers=1"},
                               {"--table_memory_mb=1", "--rocksdb_path=" + Path("rows")});
  EXPECT_NE(fading->Wait(), 0);
  EXPECT_THAT(fading->Output() + ReadWholeFile(Path("fading.log/workerlog.0")),
              HasSubstr("hint: set optimizer.lazy_mode"));
}

TEST_F(TableMemoryTest, APathAloneIsNoted) {
  const JobRun run = Train("alone", {"--rocksdb_path=" + Path("rows"), "--steps_max=2"});
  EXPECT_THAT(run.output, HasSubstr("rocksdb_path has no effect without table_memory_mb"));
  EXPECT_FALSE(std::filesystem::exists(Path("rows")));
}

}  // namespace
}  // namespace tandem::trainer
