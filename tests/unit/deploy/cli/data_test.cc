// tandem data: shows the contents of files and converts them. The tests run the command as a user
// does.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "tests/unit/deploy/launcher_fixture.h"

namespace tandem::deploy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DataTest : public LauncherTest {
 protected:
  int Tandem(const std::vector<std::string>& args) {
    StartProgram("tandem", args);
    return WaitForLauncher();
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name, std::ios::binary) << text;
  }
  std::string Read(const std::string& name) {
    std::ifstream in(dir_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string Job(const std::string& data) {
    Write("job.pbtxt",
          "model { zoo: \"wide_deep\" }\nglobal_batch_size: 2\ndata { dir: \".\" " + data + " }\n");
    return dir_ + "/job.pbtxt";
  }
  std::string LibSvmJob() {
    Write("a.libsvm", "1 1:0.5 3:2\n0 2:1\nbad\n1 4:4\n");
    return Job(
        "format: \"libsvm\" max_bad_records: 1 libsvm { train_file: \"a.libsvm\" "
        "test_file: \"a.libsvm\" ids: 5 features_max: 2 }");
  }
};

TEST_F(DataTest, InspectShowsTheDataOfAJob) {
  EXPECT_EQ(Tandem({"data", "inspect", LibSvmJob(), "--records=1"}), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("format libsvm"));
  EXPECT_THAT(Out(), HasSubstr("a.libsvm: 3 records of up to 2 features"));
  EXPECT_THAT(Out(), HasSubstr("field ids: i64[2], below 5"));
  EXPECT_THAT(Out(), HasSubstr("record 0\n  ids: int64 [2] 1 3\n  label: int64 [1] 1\n"
                               "  values: float [2] 0.5 2\n"));
  EXPECT_THAT(Out(), Not(HasSubstr("record 1")));
  EXPECT_THAT(Out(), HasSubstr("a.libsvm:3: the label \"bad\" is not one of the 2 classes"));
  EXPECT_EQ(Tandem({"data", "inspect", LibSvmJob(), "--", "--data.max_bad_records=0"}), kExitData);
  EXPECT_THAT(Err(), HasSubstr("a.libsvm:3: the label \"bad\" is not one of the 2 classes"));
}

TEST_F(DataTest, InspectShowsTheColumnsOfATable) {
  Write("t.csv", "age,city,kind\n10,Rome,a\n20,Oslo,b\n30,,a\n");
  EXPECT_EQ(Tandem({"data", "inspect", dir_ + "/t.csv"}), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("column age: FLOAT (inferred), mean 20, deviation 8.16497\n"));
  EXPECT_THAT(Out(),
              HasSubstr("column city: CATEGORY (inferred), 2 values: Rome, Oslo; 1 missing"));
  Write("job.pbtxt",
        "model { zoo: \"mlp\" } global_batch_size: 2 data { dir: \".\" format: \"table\" table { "
        "file: \"t.csv\" test_file: \"t.csv\" column { name: \"kind\" kind: LABEL } "
        "column { name: \"city\" kind: ONE_HOT } } }");
  EXPECT_EQ(Tandem({"data", "inspect", dir_ + "/job.pbtxt"}), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("3 rows with 3 features, 1 label, 2 classes"));
  EXPECT_THAT(Out(), HasSubstr("column kind: LABEL, 2 classes: a, b\n"));
  EXPECT_THAT(Out(), HasSubstr("field x: f32[3]"));
  Write("t.parquet", "PAR1");
  EXPECT_NE(Tandem({"data", "inspect", dir_ + "/t.parquet"}), 0);
  EXPECT_THAT(Err(), HasSubstr("pandas.read_parquet"));
}

TEST_F(DataTest, ConvertsIntoRecordsThatAJobReads) {
  const std::string out = dir_ + "/records";
  EXPECT_EQ(Tandem({"data", "convert", LibSvmJob(), out, "--to=recordio", "--shards=2"}), 0)
      << Err();
  EXPECT_THAT(Out(),
              HasSubstr("3 records in " + out + "-00000-of-00002 " + out + "-00001-of-00002"));
  EXPECT_THAT(Out(), HasSubstr("feature { name: \"ids\" kind: INT64 dim: 2 limit: 5 }"));
  EXPECT_THAT(Err(), HasSubstr("a.libsvm:3: the label \"bad\" is not one of the 2 classes"));
  EXPECT_EQ(Tandem({"data", "inspect", out + "-00000-of-00002", "--values=1"}), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("recordio, 2 records"));
  EXPECT_THAT(Out(), HasSubstr("  ids: int64 [2] 1 ...\n"));
  // The lines that the command prints are valid in a job file.
  EXPECT_EQ(Tandem({"data", "convert", LibSvmJob(), out}), 0) << Err();
  std::string lines = Out();
  lines = lines.substr(lines.find("  format:"));
  lines.replace(lines.find("examples {"), 10,
                "examples { train_file: \"records\" test_share: 0.5 ");
  EXPECT_EQ(Tandem({"data", "inspect", Job(lines)}), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("format tfrecord"));
  EXPECT_THAT(Out(), HasSubstr("records: 2 records of 3 features"));
  EXPECT_THAT(Out(), HasSubstr("record 0\n  ids: int64 [2] 1 3\n"));
}

TEST_F(DataTest, ConvertsRecordFilesAndNamesDamage) {
  const std::string a = dir_ + "/a", b = dir_ + "/b", c = dir_ + "/c";
  ASSERT_EQ(Tandem({"data", "convert", LibSvmJob(), a}), 0) << Err();
  ASSERT_EQ(Tandem({"data", "convert", a, b, "--to=recordio"}), 0) << Err();
  ASSERT_EQ(Tandem({"data", "convert", b, c}), 0) << Err();
  EXPECT_EQ(Read("a"), Read("c"));
  EXPECT_NE(Read("a"), Read("b"));
  std::string bytes = Read("a");
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  Write("a", bytes);
  EXPECT_EQ(Tandem({"data", "inspect", a}), kExitData);
  EXPECT_THAT(Out(), HasSubstr("a: tfrecord, 2 records"));
  EXPECT_THAT(Out(), HasSubstr("bad: " + a + ": offset 0: the checksum of a record is wrong"));
  EXPECT_EQ(Tandem({"data", "convert", a, dir_ + "/d"}), kExitData);
  EXPECT_EQ(Tandem({"data", "convert", a, dir_ + "/e", "--max_bad_records=1"}), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("2 records in"));
}

TEST_F(DataTest, AnswersAsJson) {
  const auto json = [&] { return nlohmann::json::parse(Out(), nullptr, false); };
  const std::string a = dir_ + "/a";
  ASSERT_EQ(Tandem({"data", "convert", LibSvmJob(), a, "-o", "json"}), 0) << Err();
  auto said = json();
  EXPECT_EQ(said["records"], 3);
  EXPECT_EQ(said["files"], nlohmann::json({a}));
  EXPECT_THAT(said["job_lines"].get<std::string>(), HasSubstr("feature { name: \"ids\""));
  std::string bytes = Read("a");
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  Write("a", bytes);
  EXPECT_EQ(Tandem({"data", "inspect", a, "-o", "json"}), kExitData);
  said = json();
  EXPECT_EQ(said["format"], "tfrecord");
  EXPECT_EQ(said["records"], 2);
  EXPECT_EQ(said["bytes"], bytes.size());
  EXPECT_EQ(said["first"].size(), 2u);
  EXPECT_EQ(said["first"][0]["features"]["label"], "int64 [1] 0");
  EXPECT_THAT(said["bad"][0].get<std::string>(), HasSubstr("the checksum of a record is wrong"));
}

TEST_F(DataTest, WhatIsWrong) {
  EXPECT_EQ(Tandem({"data", "inspct", "x"}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("did you mean \"inspect\"?"));
  EXPECT_EQ(Tandem({"data", "inspect"}), kExitUsage);
  EXPECT_EQ(Tandem({"data", "convert", "a", "b", "--to=tfrecords"}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("did you mean \"tfrecord\"?"));
  const std::string job = LibSvmJob();
  EXPECT_EQ(Tandem({"data", "inspect", dir_ + "/a.libsvm"}), kExitData);
  EXPECT_THAT(Err(), HasSubstr("the file is neither a tfrecord nor a recordio file"));
  EXPECT_EQ(Tandem({"data", "convert", job, dir_ + "/a.libsvm"}), kExitUnavailable);
  EXPECT_THAT(Err(), HasSubstr("a.libsvm already exists [TD2109]"));
}

}  // namespace
}  // namespace tandem::deploy
