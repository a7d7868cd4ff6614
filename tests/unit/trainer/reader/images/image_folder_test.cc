#include "trainer/reader/images/image_folder.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "proto/job.pb.h"
#include "tests/support/jpeg_test_util.h"
#include "tests/support/png_test_util.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/open.h"
#include "trainer/reader/open_images.h"

namespace tandem::reader {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class ImageFolderTest : public testing::Test {
 protected:
  // Writes an image whose pixels have the value `grey`.
  void Add(const std::string& name, int grey = 0) {
    const fs::path path = dir_ / name;
    fs::create_directories(path.parent_path());
    const std::vector<uint8_t> pixels(12 * 10 * 3, static_cast<uint8_t>(grey));
    const bool png = path.extension() == ".png" || path.extension() == ".PNG";
    trainer::WriteFile(path,
                       png ? EncodePng(pixels, 12, 10, 3) : EncodeJpeg(pixels, 12, 10, 3, 100));
  }
  // Adds `count` images of the class, whose pixels have the values 0, 1, ...
  void AddClass(const std::string& name, int count) {
    for (int i = 0; i < count; ++i) Add(absl::StrFormat("%s/%03d.png", name, i), i);
  }
  std::vector<std::string> Paths() {
    const auto folder = ListImageFolder(dir_.path());
    EXPECT_TRUE(folder.ok()) << folder.status();
    std::vector<std::string> paths;
    if (!folder.ok()) return paths;
    for (const ListedImage& image : folder->images) {
      paths.push_back(image.path + " " + std::to_string(image.label));
    }
    return paths;
  }
  std::string Error() { return std::string(ListImageFolder(dir_.path()).status().message()); }
  // Opens the data of a job with these fields of `images`.
  StatusOr<TrainAndTest> Open(const std::string& fields, bool with_test = true,
                              int64_t samples_max = 0) {
    DataConfig config;
    config.set_format("images");
    config.set_dir(dir_.path());
    config.set_train_samples_max(samples_max);
    const std::string folder = fields.find("folder:") == std::string::npos ? "folder: \".\" " : "";
    const std::string all =
        folder + "size: 8 mean: 0 mean: 0 mean: 0 stddev: 1 stddev: 1 stddev: 1 " + fields;
    CHECK(google::protobuf::TextFormat::ParseFromString(all, config.mutable_images())) << all;
    return OpenData(config, "", with_test);
  }
  // The grey values of all samples, each with its label: 1000 * label + value.
  static std::vector<int> Values(const Dataset& data) {
    std::vector<uint32_t> ids(data.size());
    std::iota(ids.begin(), ids.end(), 0u);
    std::vector<float> pixels(ids.size() * 3 * 8 * 8);
    std::vector<int64_t> labels(ids.size());
    void* const out[] = {pixels.data(), labels.data()};
    EXPECT_EQ(data.Fill(ids, out), OkStatus());
    std::vector<int> values;
    for (size_t i = 0; i < ids.size(); ++i) {
      values.push_back(static_cast<int>(labels[i]) * 1000 +
                       static_cast<int>(std::lround(pixels[i * 3 * 8 * 8] * 255)));
    }
    return values;
  }

  TempDir dir_;
};

// The order is that of torchvision's ImageFolder: classes by the bytes of their names, directories
// before the files of those below them, and files by name.
TEST_F(ImageFolderTest, ClassesAndFilesInTheOrderOfBytes) {
  for (const char* name : {"b/2.jpg", "b/10.JPEG", "b/x-y/1.png", "b/x/1.png", "B/a.PNG", "B/Z.jpg",
                           "\xc3\xa4/1.jpg", "a b/1.jpg"}) {
    Add(name);
  }
  trainer::WriteFile(dir_ / "readme.txt", std::string("x"));
  trainer::WriteFile(dir_ / "b/x/notes", std::string("x"));
  trainer::WriteFile(dir_ / "b/1.jpg.bak", std::string("x"));
  EXPECT_THAT(Paths(),
              ElementsAre("B/Z.jpg 0", "B/a.PNG 0", "a b/1.jpg 1", "b/10.JPEG 2", "b/2.jpg 2",
                          "b/x/1.png 2", "b/x-y/1.png 2", "\xc3\xa4/1.jpg 3"));
  const auto folder = ListImageFolder(dir_.path());
  EXPECT_THAT(folder->classes, ElementsAre("B", "a b", "b", "\xc3\xa4"));
  EXPECT_EQ(folder->other_files, 3u);
  const auto data = Open("split: \"1/0\"");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->notes, ElementsAre(HasSubstr("ignored 3 files")));
  EXPECT_THAT(data->classes, SizeIs(4));
}

TEST_F(ImageFolderTest, LinksAreFollowedButNotForEver) {
  Add("a/1.jpg");
  Add("more/1.jpg");
  fs::create_directory_symlink(dir_ / "more", fs::path(dir_ / "a/more"));
  EXPECT_THAT(Paths(), ElementsAre("a/1.jpg 0", "a/more/1.jpg 0", "more/1.jpg 1"));
  fs::create_directory_symlink(dir_.path(), fs::path(dir_ / "a/loop"));
  EXPECT_THAT(Error(), HasSubstr("a/loop is a link to a directory that contains it [TD2106]"));
  fs::remove(fs::path(dir_ / "a/loop"));
  fs::create_directory_symlink(fs::path(dir_ / "a"), fs::path(dir_ / "more/back"));
  EXPECT_THAT(Error(), HasSubstr("is a link to a directory that contains it [TD2106]"));
  fs::remove(fs::path(dir_ / "more/back"));
  fs::create_directory_symlink("/", fs::path(dir_ / "more/system"));
  EXPECT_THAT(Error(), HasSubstr("more/system is a link to a directory that contains it"));
}

TEST_F(ImageFolderTest, AnEvaluationNeedsItsShare) {
  AddClass("a", 6);
  AddClass("b", 6);
  EXPECT_THAT(std::string(Open("split: \"0.8/0.2\" evaluate: VALIDATION").status().message()),
              HasSubstr("data.images.split has no share for validation [TD1108]"));
}

TEST_F(ImageFolderTest, DirectoriesThatAreNoClasses) {
  Add("a/1.jpg");
  EXPECT_THAT(Error(), HasSubstr("contains 1 directories, expected one for each of at least two"));
  fs::create_directories(dir_ / "b/empty");
  EXPECT_THAT(Error(), HasSubstr("the class \"b\" has no image"));
  EXPECT_THAT(std::string(ListImageFolder(dir_ / "none").status().message()),
              HasSubstr("none does not exist [TD2001]"));
}

// The parts have all images, none of them twice. They depend on the seed, not on anything else.
TEST_F(ImageFolderTest, SplitsAreThoseOfTables) {
  AddClass("a", 60);
  AddClass("b", 40);
  const auto data = Open("split: \"0.6/0.2/0.2\"");
  ASSERT_TRUE(data.ok()) << data.status();
  std::multiset<int> all;
  for (const Dataset* part : {data->train.get(), data->validation.get(), data->test.get()}) {
    ASSERT_NE(part, nullptr);
    EXPECT_GT(part->size(), 8u);
    for (const int value : Values(*part)) all.insert(value);
  }
  EXPECT_THAT(all, SizeIs(100));
  EXPECT_THAT(std::set<int>(all.begin(), all.end()), SizeIs(100));
  // The rows of a table of 100 rows with the same split.
  const RowSplit split({0.6, 0.2, 0.2}, 1);
  std::vector<int> tests;
  for (int i = 0; i < 100; ++i) {
    const int value = i < 60 ? i : 1000 + i - 60;
    if (split.PartOf(static_cast<uint64_t>(i)) == RowPart::kTest) tests.push_back(value);
  }
  EXPECT_EQ(Values(*data->test), tests);
  EXPECT_EQ(Values(*Open("split: \"0.6/0.2/0.2\" evaluate: VALIDATION")->test),
            Values(*data->validation));
  EXPECT_NE(Values(*Open("split: \"0.6/0.2/0.2\" split_seed: 2")->test), tests);
  EXPECT_THAT(data->columns[0], HasSubstr("class 0 a: "));
  EXPECT_EQ(Open("split: \"1/0\"", false)->train->fields().back().limit, 2);
}

TEST_F(ImageFolderTest, FewerSamplesAreSpreadOverTheClasses) {
  AddClass("a", 30);
  AddClass("b", 30);
  const auto data = Open("", false, 6);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Values(*data->train), ElementsAre(0, 10, 20, 1000, 1010, 1020));
}

TEST_F(ImageFolderTest, SeparateTestImages) {
  AddClass("train/a", 3);
  AddClass("train/b", 3);
  AddClass("train/owl", 3);
  AddClass("test/owl", 2);
  AddClass("test/a", 1);
  const auto data = Open("folder: \"train\" test_folder: \"test\"");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Values(*data->test), ElementsAre(0, 2000, 2001)) << "labels of the training classes";
  EXPECT_THAT(Values(*data->train), SizeIs(9));
  AddClass("test/owls", 1);
  EXPECT_THAT(
      std::string(Open("folder: \"train\" test_folder: \"test\"").status().message()),
      HasSubstr("the class \"owls\" is not a directory of the training images [TD2004]; did "
                "you mean \"owl\"?"));
  EXPECT_THAT(Open("split: \"0.5/0.5\"")->warnings,
              ElementsAre(HasSubstr("the classes are test, train")));
}

TEST_F(ImageFolderTest, SettingsThatDoNotFit) {
  AddClass("a", 3);
  AddClass("b", 3);
  const auto error = [this](const std::string& fields) {
    return std::string(Open(fields).status().message());
  };
  EXPECT_THAT(error("classes: 3 split: \"0.5/0.5\""),
              HasSubstr("data.images.classes is 3, but " + dir_.path() + " has 2 classes"));
  EXPECT_EQ(error("classes: 2 split: \"0.5/0.5\""), "");
  EXPECT_THAT(error("train_list: \"x\" split: \"0.5/0.5\""),
              HasSubstr("sets folder and train_list"));
  EXPECT_THAT(error(""), HasSubstr("set test_folder or split"));
  EXPECT_THAT(error("split: \"0.5/0.6\""), HasSubstr("data.images.split is \"0.5/0.6\""));
  EXPECT_THAT(error("split: \"0.99999/0.00001\""), HasSubstr("there is no test image [TD2006]"));
}

// The default of `resize` is 8/7 of the size, rounded. A size that is refused does not overflow it.
TEST_F(ImageFolderTest, TheDefaultOfResize) {
  DataConfig config;
  const auto resize = [&config](int64_t size) {
    config.mutable_images()->set_size(size);
    const auto options = ImageOptionsOf(config, "");
    EXPECT_TRUE(options.ok()) << options.status();
    return options.ok() ? options->resize : -1;
  };
  EXPECT_EQ(resize(224), 256);
  EXPECT_EQ(resize(8), 9);
  EXPECT_EQ(resize(4096), 4681);
  for (const int64_t size : {INT64_MAX, INT64_MAX - 6, int64_t{0}, int64_t{-1}, INT64_MIN}) {
    EXPECT_GE(resize(size), 0) << size;
  }
  config.set_format("images");
  config.mutable_images()->set_folder("pets");
  config.mutable_images()->set_split("0.5/0.5");
  config.set_dir(dir_.path());
  AddClass("pets/a", 3);
  AddClass("pets/b", 3);
  config.mutable_images()->set_size(INT64_MAX);
  EXPECT_THAT(std::string(OpenData(config, "", true).status().message()),
              HasSubstr("size is 9223372036854775807, expected 1 to 4096"));
}

TEST_F(ImageFolderTest, SizesOfAllImages) {
  AddClass("a", 2);
  Add("b/1.jpg");
  trainer::WriteFile(dir_ / "b/large.png", EncodePng(std::vector<uint8_t>(300 * 20), 300, 20, 1));
  trainer::WriteFile(dir_ / "b/bad.jpg", std::string("no image"));
  const auto lines = DescribeImages(dir_.path());
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_THAT(*lines, ElementsAre("class 0 a: 2 images", "class 1 b: 3 images",
                                  "sizes: width 12 to 300, height 10 to 20; 1 images are not "
                                  "readable",
                                  HasSubstr("bad.jpg: the file is neither a JPEG nor a PNG")));
}

}  // namespace
}  // namespace tandem::reader
