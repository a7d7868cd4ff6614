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

class ImageSizesTest : public testing::Test {
 protected:
  ImageSizesTest() {
    for (const char* name : {"cat/1.png", "dog/1.png", "owl/2.png", "owl/notes.txt"}) {
      const std::filesystem::path path = std::filesystem::path(dir_ / "pets") / name;
      std::filesystem::create_directories(path.parent_path());
      WriteFile(path, std::string("not decoded"));
    }
  }
  StatusOr<EffectiveJob> Load(const std::string& model, const std::string& images = "") {
    WriteFile(dir_ / "job.pbtxt",
              "model { zoo: " + model +
                  " } global_batch_size: 2 data { dir: \".\" format: \"images\" images { folder: "
                  "\"pets\" split: \"1/0\" size: 32 " +
                  images + " } }");
    JobSources sources;
    sources.path = dir_ / "job.pbtxt";
    return LoadJob(sources, 1);
  }
  std::map<std::string, std::string> Args(const std::string& model,
                                          const std::string& images = "") {
    const auto job = Load(model, images);
    EXPECT_EQ(job.status(), OkStatus());
    std::map<std::string, std::string> out;
    if (!job.ok()) return out;
    for (const ModelArg& arg : job->config->model().arg()) out[arg.name()] = arg.value();
    return out;
  }

  TempDir dir_;
};

TEST_F(ImageSizesTest, ClassesComeFromTheDirectories) {
  for (const std::string model : {"lenet", "mlp", "resnet18", "softmax"}) {
    EXPECT_THAT(Args('"' + model + '"'),
                ElementsAre(Pair("classes", "3"), Pair("image", "3,32,32")));
  }
  EXPECT_THAT(Args("\"lenet\"", "layout: NHWC"), ElementsAre(Pair("classes", "3")));
  const auto job = Load("\"lenet\" arg { name: \"classes\" value: \"3\" }");
  ASSERT_EQ(job.status(), OkStatus());
  EXPECT_THAT(job->notes, HasSubstr("gets from the data: image=3,32,32; the classes are cat, dog, "
                                    "owl"));
  EXPECT_THAT(job->notes, HasSubstr("pets: ignored 1 files that are not .jpg, .jpeg or .png"));
}

TEST_F(ImageSizesTest, RefusesAnotherNumberOfClasses) {
  EXPECT_THAT(
      std::string(Load("\"lenet\" arg { name: \"classes\" value: \"4\" }").status().message()),
      HasSubstr("has classes=4, but the directory of images has 3 classes [TD2004]"));
  EXPECT_THAT(std::string(Load("\"lenet\"", "classes: 10").status().message()),
              HasSubstr("data.images.classes is 10, but"));
}

}  // namespace
}  // namespace tandem::trainer
