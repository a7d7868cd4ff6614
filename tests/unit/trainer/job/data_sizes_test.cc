#include "trainer/job/data_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "proto/job.pb.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/job/job.h"

namespace tandem::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class DataSizesTest : public testing::Test {
 protected:
  // Loads a job with these columns in addition to the default columns, and with these model
  // arguments.
  StatusOr<EffectiveJob> Load(const std::string& columns, const std::string& args = "") {
    WriteFile(dir_ / "t.csv", std::string("a,b,w,y,z\n1,red,1,0,0.5\n2,blue,2,1,1\n3,red,1,2,3\n"));
    WriteFile(dir_ / "job.pbtxt",
              "model { zoo: \"mlp\" " + args +
                  " } global_batch_size: 2 data { dir: \".\" format: \"table\" table { file: "
                  "\"t.csv\" split: \"1/0\" " +
                  columns + " } }");
    JobSources sources;
    sources.path = dir_ / "job.pbtxt";
    return LoadJob(sources, 1);
  }
  std::map<std::string, std::string> Args(const std::string& columns,
                                          const std::string& args = "") {
    const auto job = Load(columns, args);
    EXPECT_EQ(job.status(), OkStatus());
    std::map<std::string, std::string> out;
    if (!job.ok()) return out;
    for (const ModelArg& arg : job->config->model().arg()) out[arg.name()] = arg.value();
    return out;
  }
  std::string Error(const std::string& columns, const std::string& args = "") {
    return std::string(Load(columns, args).status().message());
  }

  TempDir dir_;
};

constexpr const char* kRest =
    "column { name: \"w\" kind: WEIGHT } column { name: \"z\" kind: IGNORE } ";

TEST_F(DataSizesTest, ComeFromTheTable) {
  EXPECT_THAT(Args(std::string(kRest) + "column { name: \"b\" kind: ONE_HOT } "
                                        "column { name: \"y\" kind: LABEL }"),
              ElementsAre(Pair("classes", "3"), Pair("features", "3"), Pair("loss", "softmax"),
                          Pair("outputs", "1"), Pair("weighted", "1")));
  EXPECT_THAT(Args("column { name: \"b\" kind: IGNORE } column { name: \"y\" kind: TARGET } "
                   "column { name: \"z\" kind: TARGET }",
                   "arg { name: \"loss\" value: \"huber\" }"),
              ElementsAre(Pair("features", "2"), Pair("loss", "huber"), Pair("outputs", "2")));
}

TEST_F(DataSizesTest, RefusesTablesThatDoNotFitTheLoss) {
  const std::string label = std::string(kRest) +
                            "column { name: \"b\" kind: IGNORE } "
                            "column { name: \"y\" kind: LABEL }";
  EXPECT_THAT(Error(label, "arg { name: \"loss\" value: \"mse\" }"),
              HasSubstr("needs a column of kind TARGET"));
  EXPECT_THAT(Error(label, "arg { name: \"loss\" value: \"sigmoid\" }"),
              HasSubstr("needs labels of two classes, but the table has 3"));
  EXPECT_THAT(Error("column { name: \"y\" kind: LABEL }"), HasSubstr("kind: ONE_HOT"));
  EXPECT_THAT(Error("column { name: \"yy\" kind: LABEL }"),
              HasSubstr("there is no column \"yy\" [TD2007]"));
}

}  // namespace
}  // namespace tandem::trainer
