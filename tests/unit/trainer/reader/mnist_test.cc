#include "trainer/reader/mnist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "tests/unit/trainer/test_files.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kFashion = "/usr/share/datasets/fashion-mnist";

TEST(Mnist, FillsBatches) {
  for (const bool gz : {false, true}) {
    TempDir dir;
    trainer::WriteTinyMnist(dir.path(), "train", 25, gz);
    const auto data = OpenMnist({.dir = dir.path(), .mean = 0.5f, .stddev = 0.25f});
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ((*data)->size(), 25u);
    const auto& fields = (*data)->fields();
    ASSERT_EQ(fields.size(), 2u);
    EXPECT_EQ(fields[0].name + " " + ToString(fields[0].desc), "img f32[1,2,3]");
    EXPECT_EQ(fields[1].name + " " + ToString(fields[1].desc), "label i64[1]");

    std::array<float, 13> images;
    std::array<int64_t, 3> labels;
    images[12] = -77;
    labels[2] = -77;
    void* const out[] = {images.data(), labels.data()};
    const uint32_t ids[] = {24, 3};
    ASSERT_TRUE((*data)->Fill(ids, out).ok());
    for (int p = 0; p < 6; ++p) {
      EXPECT_FLOAT_EQ(images[p], ((7 * 24 + p) % 256 / 255.0f - 0.5f) / 0.25f);
      EXPECT_FLOAT_EQ(images[6 + p], ((7 * 3 + p) / 255.0f - 0.5f) / 0.25f);
    }
    EXPECT_THAT(labels, ElementsAre(4, 3, -77));
    EXPECT_EQ(images[12], -77) << "wrote past the batch";
    const uint32_t bad[] = {0, 25};
    EXPECT_EQ((*data)->Fill(bad, out).code(), StatusCode::kOutOfRange);
  }
}

TEST(Mnist, BytesAndFewerSamples) {
  TempDir dir;
  trainer::WriteTinyMnist(dir.path(), "t10k", 25, true);
  const auto data =
      OpenMnist({.dir = dir.path(), .train = false, .samples_max = 7, .image_dtype = DType::kU8});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 7u);
  std::array<uint8_t, 6> image;
  int64_t label = 0;
  void* const out[] = {image.data(), &label};
  const uint32_t ids[] = {6};
  ASSERT_TRUE((*data)->Fill(ids, out).ok());
  EXPECT_THAT(image, ElementsAre(42, 43, 44, 45, 46, 47));
  EXPECT_EQ(label, 6);
  const uint32_t bad[] = {7};
  EXPECT_EQ((*data)->Fill(bad, out).code(), StatusCode::kOutOfRange);
}

TEST(Mnist, SaysWhatIsWrong) {
  const std::string images = "train-images-idx3-ubyte", labels = "train-labels-idx1-ubyte";
  const struct {
    const char* what;
    std::vector<uint8_t> image_file, label_file;
    StatusCode code;
    std::vector<std::string> expected;
  } cases[] = {
      {"counts differ",
       trainer::Idx({2, 1, 1}, {1, 2}),
       trainer::Idx({3}, {0, 1, 2}),
       StatusCode::kDataLoss,
       {images + ": offset 4: there are 2 images, but", labels + " has 3 labels"}},
      {"label too large",
       trainer::Idx({2, 1, 1}, {1, 2}),
       trainer::Idx({2}, {9, 10}),
       StatusCode::kDataLoss,
       {labels +
        ": offset 9: label 10 of sample 1 is out of range: the 10 classes are 0 to 9 [TD2004]"}},
      {"no samples",
       trainer::Idx({0, 28, 28}, {}),
       trainer::Idx({0}, {}),
       StatusCode::kDataLoss,
       {"contains no images"}},
      {"no pixels",
       trainer::Idx({1, 0, 28}, {}),
       trainer::Idx({1}, {0}),
       StatusCode::kDataLoss,
       {"0x28"}},
      {"labels instead",
       trainer::Idx({2}, {1, 2}),
       trainer::Idx({2}, {1, 2}),
       StatusCode::kDataLoss,
       {images + ": offset 0: the file begins with 0x00000801"}},
      {"no labels",
       trainer::Idx({2, 1, 1}, {1, 2}),
       {},
       StatusCode::kNotFound,
       {labels, ".gz", "hint: name the directory with the four idx files with --data.dir=DIR"}},
  };
  for (const auto& c : cases) {
    TempDir dir;
    trainer::WriteFile(dir / images, c.image_file);
    if (!c.label_file.empty()) trainer::WriteFile(dir / labels, c.label_file);
    const Status status = OpenMnist({.dir = dir.path()}).status();
    EXPECT_EQ(status.code(), c.code) << c.what;
    for (const auto& text : c.expected) EXPECT_THAT(status.message(), HasSubstr(text)) << c.what;
  }
}

TEST(Mnist, SaysWhereDataCouldComeFrom) {
  TempDir dir;
  trainer::WriteFile(dir / "file", std::string("x"));
  for (const std::string& path : {std::string(), dir / "absent", dir / "file"}) {
    const Status status = OpenMnist({.dir = path}).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("hint: name the directory"));
    EXPECT_THAT(status.message(), HasSubstr("--data.dir=DIR"));
    EXPECT_THAT(status.message(), Not(HasSubstr("fashion"))) << "it is another folder";
    EXPECT_THAT(status.message(), HasSubstr(path));
  }
  trainer::WriteTinyMnist(dir.path(), "train", 1, false);
  EXPECT_EQ(OpenMnist({.dir = dir.path(), .stddev = 0}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenMnist({.dir = dir.path(), .image_dtype = DType::kF16}).status().code(),
            StatusCode::kInvalidArgument);
}

// The documented mean and standard deviation equal those of the real images.
TEST(Mnist, RealFashionMnist) {
  if (!std::filesystem::exists(kFashion)) {
    GTEST_SKIP() << kFashion << " is absent: apt-get install dataset-fashion-mnist";
  }
  const auto test = OpenMnist({.dir = kFashion, .train = false});
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 10000u);
  const auto train = OpenMnist({.dir = kFashion});
  ASSERT_TRUE(train.ok()) << train.status();
  ASSERT_EQ((*train)->size(), 60000u);
  std::vector<float> images(60000 * 784);
  std::vector<int64_t> labels(60000);
  std::vector<uint32_t> ids(60000);
  std::iota(ids.begin(), ids.end(), 0u);
  void* const out[] = {images.data(), labels.data()};
  ASSERT_TRUE((*train)->Fill(ids, out).ok());
  double sum = 0, squares = 0;
  for (float v : images) sum += v, squares += double{v} * v;
  const double mean = sum / static_cast<double>(images.size());
  EXPECT_NEAR(mean, 0, 1e-3);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(images.size()) - mean * mean), 1, 1e-3);
  std::array<int, 10> counts{};
  for (int64_t label : labels) ++counts[label];
  for (int count : counts) EXPECT_EQ(count, 6000);
}

}  // namespace
}  // namespace tandem::reader
