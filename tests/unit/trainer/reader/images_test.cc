// Image datasets besides MNIST: CIFAR-10 files and synthetic images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/cifar.h"
#include "trainer/reader/synthetic.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kRecord = 3073;

// Returns `count` records. Record i has label (first + i) % 10, and its pixel p is (i + p) % 256.
std::vector<uint8_t> Records(size_t count, size_t first) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<uint8_t>((first + i) % 10));
    for (size_t p = 0; p < kRecord - 1; ++p) bytes.push_back(static_cast<uint8_t>(i + p));
  }
  return bytes;
}

void WriteCifar(const std::string& dir) {
  for (size_t i = 1; i <= 5; ++i) {
    trainer::WriteFile(dir + "/data_batch_" + std::to_string(i) + ".bin", Records(3, i));
  }
  trainer::WriteFile(dir + "/test_batch.bin", Records(4, 0));
}

TEST(Cifar10, FillsBatchesFromAllFiles) {
  TempDir dir;
  WriteCifar(dir.path());
  const auto train = OpenCifar10({.dir = dir.path()});
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->size(), 15u);
  const auto test = OpenCifar10({.dir = dir.path(), .train = false});
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 4u);

  std::vector<float> images(2 * (kRecord - 1) + 1, -77.0f);
  std::vector<int64_t> labels(3, -77);
  void* const out[] = {images.data(), labels.data()};
  const uint32_t ids[] = {14, 1};  // the third record of file 5, the second of file 1
  ASSERT_TRUE((*train)->Fill(ids, out).ok());
  EXPECT_THAT(labels, ElementsAre(7, 2, -77));
  EXPECT_FLOAT_EQ(images[0], (2 / 255.0f - 0.4914f) / 0.2470f);
  EXPECT_FLOAT_EQ(images[1024], (2 / 255.0f - 0.4822f) / 0.2435f);
  EXPECT_FLOAT_EQ(images[kRecord - 1 + 2048 + 5], (6 / 255.0f - 0.4465f) / 0.2616f);
  EXPECT_EQ(images.back(), -77.0f) << "wrote past the batch";
  const uint32_t bad[] = {15};
  EXPECT_EQ((*train)->Fill(bad, out).code(), StatusCode::kOutOfRange);
  EXPECT_EQ((*OpenCifar10({.dir = dir.path(), .samples_max = 4}))->size(), 4u);
}

TEST(Cifar10, DamagedFilesAreNamed) {
  TempDir dir;
  WriteCifar(dir.path());
  auto bytes = Records(3, 0);
  bytes.pop_back();
  trainer::WriteFile(dir / "data_batch_3.bin", bytes);
  Status status = OpenCifar10({.dir = dir.path()}).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("data_batch_3.bin: offset 6146"));
  bytes = Records(3, 0);
  bytes[kRecord] = 10;
  trainer::WriteFile(dir / "data_batch_3.bin", bytes);
  status = OpenCifar10({.dir = dir.path()}).status();
  EXPECT_THAT(status.message(), HasSubstr("offset 3073: the label is 10"));
  std::filesystem::remove(dir / "data_batch_3.bin");
  status = OpenCifar10({.dir = dir.path()}).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("data_batch_3.bin"));
}

struct Batch {
  std::vector<float> images;
  std::vector<int64_t> labels;
};

Batch Fill(const Dataset& data, const std::vector<uint32_t>& ids) {
  Batch batch;
  batch.images.resize(ids.size() * static_cast<size_t>(data.fields()[0].desc.shape.numel()));
  batch.labels.resize(ids.size());
  void* const out[] = {batch.images.data(), batch.labels.data()};
  EXPECT_TRUE(data.Fill(ids, out).ok());
  return batch;
}

TEST(Synthetic, SamplesDependOnTheirNumberAlone) {
  const SyntheticOptions options = {.image = {3, 8, 9}, .classes = 5, .samples = 100};
  const auto data = *OpenSynthetic(options);
  EXPECT_EQ(ToString(data->fields()[0].desc), "f32[3,8,9]");
  const Batch two = Fill(*data, {7, 3}), one = Fill(**OpenSynthetic(options), {3});
  EXPECT_EQ(std::vector<float>(two.images.begin() + 216, two.images.end()), one.images);
  EXPECT_EQ(two.labels[1], one.labels[0]);
  SyntheticOptions other = options;
  other.train = false;
  EXPECT_NE(Fill(**OpenSynthetic(other), {3}).images, one.images);
  other = options;
  other.seed = 2;
  EXPECT_NE(Fill(**OpenSynthetic(other), {3}).images, one.images);
}

// Every class must appear. The mean images of the classes must differ, so that a model can learn.
TEST(Synthetic, ClassesDiffer) {
  const auto data = *OpenSynthetic({.image = {3, 8, 8}, .classes = 4, .samples = 2000});
  std::vector<uint32_t> ids(2000);
  std::iota(ids.begin(), ids.end(), 0u);
  const Batch all = Fill(*data, ids);
  std::vector<std::vector<double>> mean(4, std::vector<double>(192));
  std::vector<double> count(4);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto label = static_cast<size_t>(all.labels[i]);
    ++count.at(label);
    for (size_t p = 0; p < 192; ++p) mean[label][p] += all.images[i * 192 + p];
  }
  for (size_t a = 0; a < 4; ++a) {
    EXPECT_GT(count[a], 400);
    for (size_t b = 0; b < a; ++b) {
      double distance = 0;
      for (size_t p = 0; p < 192; ++p) {
        const double d = mean[a][p] / count[a] - mean[b][p] / count[b];
        distance += d * d / 192;
      }
      EXPECT_GT(distance, 0.2) << a << " and " << b;
    }
  }
}

TEST(Synthetic, RefusesWrongSizes) {
  for (const std::vector<int64_t>& image :
       {std::vector<int64_t>{3, 8}, {3, 0, 8}, {3, 8, 1 << 20}}) {
    EXPECT_EQ(OpenSynthetic({.image = image}).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(OpenSynthetic({.classes = 1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenSynthetic({.samples = 0}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::reader
