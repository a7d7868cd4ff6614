#include "trainer/reader/images/image_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/ops/formulas/sample_image.h"
#include "tests/support/jpeg_test_util.h"
#include "tests/support/png_test_util.h"
#include "tests/unit/trainer/reader/dataset_test_util.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/images/image_resample.h"
#include "trainer/reader/images/jpeg.h"

namespace tandem::reader {
namespace {

using ops::LiesIn;
using ops::PackedImage;
using testing::ElementsAre;
using testing::HasSubstr;

// Returns the colour of a smooth image at (x, y). JPEG changes this image only a little, and the
// image is nearly bilinear everywhere.
double Colour(int channel, double x, double y) {
  return 128 + 100 * std::sin(x / (40 + 15 * channel)) * std::cos(y / (55 - 10 * channel));
}

std::vector<uint8_t> Picture(int width, int height, int channels) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels.push_back(c == 3 ? 255 : static_cast<uint8_t>(std::lround(Colour(c, x, y))));
      }
    }
  }
  return pixels;
}

std::string Jpeg(int width, int height, int channels = 3, bool progressive = false) {
  return EncodeJpeg(Picture(width, height, channels), width, height, channels, 95, progressive);
}

TEST(JpegDecoder, PartsAreThePartsOfTheWhole) {
  JpegDecoder decoder;
  for (const bool progressive : {false, true}) {
    const std::string file = Jpeg(333, 257, 3, progressive);
    for (const ImageRect rect : {ImageRect{0, 0, 333, 257}, ImageRect{100, 50, 120, 90},
                                 ImageRect{300, 200, 33, 57}, ImageRect{17, 255, 1, 2}}) {
      for (const int wanted : {1000, 40, 10, 1}) {
        const auto size = decoder.Open(file);
        ASSERT_TRUE(size.ok()) << size.status();
        EXPECT_EQ(size->width, 333);
        EXPECT_EQ(size->height, 257);
        const auto part = decoder.Decode(rect, {wanted, wanted});
        ASSERT_TRUE(part.ok()) << part.status();
        const double scale = rect.width / part->rect_width;
        ASSERT_TRUE(scale == 1 || part->rect_width >= wanted);
        ASSERT_LE(part->x + part->rect_width, part->width + 1);
        double worst = 0;
        for (int y = 0; y < part->height; ++y) {
          for (int x = 0; x < part->width; ++x) {
            // The position of the centre of the pixel in the whole image.
            const double at_x = (x - part->x + 0.5) * scale + rect.x - 0.5;
            const double at_y = (y - part->y + 0.5) * scale + rect.y - 0.5;
            for (int c = 0; c < 3; ++c) {
              const double got = part->rgb[(y * part->width + x) * 3 + c];
              worst = std::max(worst, std::abs(got - Colour(c, at_x, at_y)));
            }
          }
        }
        EXPECT_LT(worst, 12) << rect.x << "," << rect.y << " scale " << scale;
      }
    }
  }
}

TEST(JpegDecoder, GreyAndCmyk) {
  JpegDecoder decoder;
  for (const int channels : {1, 4}) {
    const std::string file = Jpeg(64, 48, channels);
    ASSERT_TRUE(decoder.Open(file).ok());
    const auto pixels = decoder.Decode({0, 0, 64, 48}, {64, 48});
    ASSERT_TRUE(pixels.ok()) << pixels.status();
    for (int c = 0; c < 3; ++c) {
      const int from = channels == 1 ? 0 : c;
      EXPECT_NEAR(pixels->rgb[(20 * 64 + 30) * 3 + c], Colour(from, 30, 20), 8) << c;
    }
  }
}

TEST(JpegDecoder, DamagedFilesAreRefused) {
  JpegDecoder decoder;
  const std::string file = Jpeg(200, 100);
  EXPECT_THAT(std::string(decoder.Open("\x89PNG\r\n").status().message()),
              HasSubstr("is not a JPEG image"));
  EXPECT_FALSE(decoder.Open("").ok());
  for (const size_t size : {file.size() / 2, file.size() - 10}) {
    const std::string cut = file.substr(0, size);
    ASSERT_TRUE(decoder.Open(cut).ok());
    EXPECT_EQ(decoder.Decode({0, 0, 200, 100}, {200, 100}).status().code(), StatusCode::kDataLoss);
  }
  ASSERT_TRUE(decoder.Open(file).ok()) << "goes on after a damaged one";
  EXPECT_TRUE(decoder.Decode({0, 0, 200, 100}, {200, 100}).ok());
}

TEST(ImageResampler, IsBilinearBetweenCentres) {
  const std::vector<uint8_t> pixels = {0, 10, 20, 100, 110, 120, 200, 210, 220,
                                       0, 10, 20, 100, 110, 120, 200, 210, 220};
  const ImagePixels image{pixels.data(), 3, 2, 0, 0, 3, 2};
  ImageResampler resampler;
  std::vector<float> out(3 * 6 * 6);
  ops::ImageForm form{.size = 6, .scale = {1, 1, 1}, .bias = {0, 1, 2}};
  resampler.Run(image, form, /*flip=*/false, out.data());
  EXPECT_THAT(std::vector(out.begin(), out.begin() + 6), ElementsAre(0, 25, 75, 125, 175, 200));
  EXPECT_THAT(std::vector(out.begin() + 36, out.begin() + 42),
              ElementsAre(11, 36, 86, 136, 186, 211));
  form.channels_last = true;
  resampler.Run(image, form, /*flip=*/true, out.data());
  EXPECT_THAT(std::vector(out.begin(), out.begin() + 6), ElementsAre(200, 211, 222, 175, 186, 197));
}

// Channels-first samples, which are computed several pixels at a time, must have the same values as
// channels-last samples.
TEST(ImageResampler, PlanesAreChannelsLastInAnotherOrder) {
  std::vector<uint8_t> pixels(size_t{31} * 23 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 5 + i);
  const ImagePixels image{pixels.data(), 31, 23, 1.5, 2.25, 29, 20};
  ImageResampler resampler;
  for (const int size : {1, 3, 4, 18, 33}) {
    const auto n = static_cast<size_t>(size);
    std::vector<float> planes(3 * n * n), last(3 * n * n);
    ops::ImageForm form{.size = size, .scale = {1, 0.5f, 0.3f}, .bias = {0, -1, 2}};
    resampler.Run(image, form, /*flip=*/false, planes.data());
    form.channels_last = true;
    resampler.Run(image, form, /*flip=*/false, last.data());
    for (size_t i = 0; i < planes.size(); ++i) {
      ASSERT_EQ(planes[i], last[i % (n * n) * 3 + i / (n * n)]) << size << " " << i;
    }
  }
}

class ImageListTest : public testing::Test {
 protected:
  ImageListTest() {
    std::string list = "# images\n";
    for (int i = 0; i < 12; ++i) {
      const std::string name = "image " + std::to_string(i) + ".jpg";
      trainer::WriteFile(dir_ / name, Jpeg(60 + 10 * i, 150 - 7 * i));
      list += name + " " + std::to_string(i % 5) + "\n";
    }
    trainer::WriteFile(dir_ / "list", list);
    options_.list = dir_ / "list";
    options_.root = dir_.path();
    options_.classes = 5;
    options_.size = 24;
    options_.resize = 32;
    options_.threads = 3;
  }
  std::unique_ptr<Dataset> Open() {
    auto data = OpenImageList(options_, &warnings_);
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? std::move(*data) : nullptr;
  }
  // Returns the images of the samples `ids` in an epoch.
  static std::vector<float> Images(const Dataset& data, uint64_t epoch,
                                   const std::vector<uint32_t>& ids) {
    const auto elements = static_cast<size_t>(data.fields()[0].desc.shape.numel());
    std::vector<float> images(ids.size() * elements);
    std::vector<int64_t> labels(ids.size());
    void* out[] = {images.data(), labels.data()};
    EXPECT_EQ(data.FillEpoch(epoch, ids, out), OkStatus());
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(labels[i], ids[i] % 5);
    return images;
  }

  TempDir dir_;
  ImageListOptions options_;
  std::vector<std::string> warnings_;
};

TEST_F(ImageListTest, SamplesDependOnSeedEpochAndRecordAlone) {
  const auto data = Open();
  const std::vector<uint32_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto first = Images(*data, 3, all);
  options_.threads = 1;
  const auto again = Open();
  EXPECT_EQ(Images(*again, 3, all), first);
  const auto one = Images(*again, 3, {7});
  EXPECT_TRUE(std::equal(one.begin(), one.end(), first.begin() + 7 * 3 * 24 * 24));
  EXPECT_NE(Images(*again, 4, all), first);
  options_.seed = 2;
  EXPECT_NE(Images(*Open(), 3, all), first);
}

TEST_F(ImageListTest, TheCentreForTests) {
  options_.random = false;
  options_.nhwc = true;
  const auto data = Open();
  EXPECT_EQ(data->fields()[0].desc.shape, (Shape{24, 24, 3}));
  EXPECT_EQ(Images(*data, 0, {4}), Images(*data, 1, {4}));
  // Image 4 has 100x122 pixels. Its shorter side is resized to 32 pixels, and 24 pixels in the
  // centre are kept. They correspond to 75x75 pixels of the original image, beginning at (12, 23).
  const auto image = Images(*data, 0, {4});
  for (int y = 2; y < 22; y += 3) {
    for (int x = 2; x < 22; x += 3) {
      const double at_x = 12 + (x + 0.5) * 75 / 24 - 0.5, at_y = 23 + (y + 0.5) * 75 / 24 - 0.5;
      for (int c = 0; c < 3; ++c) {
        const float v = image[static_cast<size_t>((y * 24 + x) * 3 + c)];
        const size_t channel = static_cast<size_t>(c);
        const double got = (v * options_.stddev[channel] + options_.mean[channel]) * 255;
        EXPECT_NEAR(got, Colour(c, at_x, at_y), 8) << x << "," << y << "," << c;
      }
    }
  }
}

// Over many samples, the areas and ratios cover their whole ranges, and half of the samples are
// mirrored. The red of a pixel is its x and the green is its y, so the corners of a sample show the
// cropped rectangle.
TEST_F(ImageListTest, RandomRectanglesAreDrawnAsTheyShould) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < 200; ++y) {
    for (int x = 0; x < 200; ++x) pixels.insert(pixels.end(), {uint8_t(x), uint8_t(y), 0});
  }
  trainer::WriteFile(dir_ / "ramp.jpg", EncodeJpeg(pixels, 200, 200, 3, 100));
  trainer::WriteFile(dir_ / "list", std::string("ramp.jpg 0\n"));
  options_.mean = {0, 0, 0};
  options_.stddev = {1, 1, 1};
  options_.area_min = 0.2;
  options_.area_max = 0.8;
  const auto data = Open();
  int mirrored = 0;
  double area_least = 1, area_most = 0, ratio_least = 2, ratio_most = 0;
  for (uint64_t epoch = 0; epoch < 400; ++epoch) {
    const auto image = Images(*data, epoch, {0});
    const double left = image[12 * 24] * 255, right = image[12 * 24 + 23] * 255;
    const double top = image[24 * 24 + 12] * 255, bottom = image[24 * 24 + 23 * 24 + 12] * 255;
    const double width = std::abs(right - left) * 24 / 23, height = (bottom - top) * 24 / 23;
    mirrored += right < left ? 1 : 0;
    const double area = width * height / 40000, ratio = width / height;
    area_least = std::min(area_least, area);
    area_most = std::max(area_most, area);
    ratio_least = std::min(ratio_least, ratio);
    ratio_most = std::max(ratio_most, ratio);
  }
  EXPECT_NEAR(mirrored, 200, 60);
  EXPECT_NEAR(area_least, 0.2, 0.03);
  EXPECT_NEAR(area_most, 0.8, 0.04);
  EXPECT_NEAR(ratio_least, 0.75, 0.06);
  EXPECT_NEAR(ratio_most, 1.333, 0.08);
}

// Raw lists give pixels and positions. SampleImage must compute from them the same bits as from the
// original images, with no more memory. This must also hold for large images and for any number of
// packing threads.
TEST_F(ImageListTest, RawSamplesBecomeTheSameBits) {
  std::string list = trainer::ReadFile(dir_ / "list");
  for (const auto& [width, height] : {std::pair(1300, 40), std::pair(30, 1100), std::pair(900, 800),
                                      std::pair(7, 5), std::pair(1, 1)}) {
    const std::string name = absl::StrFormat("%dx%d.jpg", width, height);
    trainer::WriteFile(dir_ / name, Jpeg(width, height));
    list += name + " 0\n";
  }
  trainer::WriteFile(dir_ / "list", list);
  std::vector<uint32_t> ids(17);
  std::iota(ids.begin(), ids.end(), 0u);
  const size_t size = 24, pixels = 12 * size * size;
  for (const bool random : {true, false}) {
    options_.random = options_.nhwc = random;
    options_.raw = false;
    const auto plain = Open();
    std::vector<float> want(ids.size() * 3 * size * size), got(want.size());
    std::vector<int64_t> labels(ids.size()), raw_labels(ids.size());
    void* out[] = {want.data(), labels.data()};
    ASSERT_EQ(plain->FillEpoch(5, ids, out), OkStatus());
    options_.raw = true;
    const auto raw = Open();
    ASSERT_EQ(raw->fields().size(), 4u);
    EXPECT_EQ(raw->fields()[0].desc.bytes(), plain->fields()[0].desc.bytes());
    std::vector<uint8_t> packed(ids.size() * pixels);
    std::vector<PackedImage> images(ids.size());
    std::vector<int32_t> taps(ids.size() * 2 * size);
    void* raw_out[] = {packed.data(), images.data(), taps.data(), raw_labels.data()};
    ASSERT_EQ(raw->FillEpoch(5, ids, raw_out), OkStatus());
    size_t used = 0;
    std::vector<std::byte> scratch(ops::ImageScratchBytes(2 * size));
    for (size_t i = 0; i < ids.size(); ++i) {
      ASSERT_TRUE(LiesIn(images[i], size, static_cast<int64_t>(packed.size())));
      used += static_cast<size_t>(images[i].width * images[i].height * 3);
      ops::SampleImage(FormOf(options_), packed.data() + images[i].begin, images[i].width,
                       images[i].height, taps.data() + i * 2 * size, scratch.data(),
                       got.data() + i * 3 * size * size);
    }
    EXPECT_EQ(got, want) << random;
    EXPECT_EQ(raw_labels, labels);
    EXPECT_EQ(raw->BytesOf(0, ids.size(), raw_out), used) << "without gaps";
    EXPECT_EQ(raw->BytesOf(2, ids.size(), raw_out), taps.size() * 4);
  }
}

// PNG files are read as JPEG files, whatever their names. A sample of an image with the same pixels
// has the same bits.
TEST_F(ImageListTest, PngFilesInLists) {
  options_.random = false;
  const std::vector<uint8_t> pixels = Picture(100, 122, 3);
  trainer::WriteFile(dir_ / "image 4.jpg", EncodePng(pixels, 100, 122, 3));
  const auto png = Images(*Open(), 0, {4, 3});
  for (const bool random : {false, true}) {
    options_.random = random;
    trainer::WriteFile(dir_ / "image 4.jpg", EncodePng(pixels, 100, 122, 3));
    const auto plain = Images(*Open(), 7, {4, 3});
    trainer::WriteFile(dir_ / "image 4.jpg", EncodePng(pixels, 100, 122, 3, true));
    EXPECT_EQ(Images(*Open(), 7, {4, 3}), plain) << "interlaced";
  }
  options_.random = false;
  trainer::WriteFile(dir_ / "image 4.jpg", Jpeg(100, 122));
  const auto jpeg = Images(*Open(), 0, {4, 3});
  ASSERT_EQ(png.size(), jpeg.size());
  for (size_t i = 0; i < png.size(); ++i) ASSERT_NEAR(png[i], jpeg[i], 0.2) << i;
  const std::string file = EncodePng(pixels, 100, 122, 3);
  trainer::WriteFile(dir_ / "image 4.jpg", file.substr(0, file.size() / 2));
  std::vector<float> image(3 * 24 * 24);
  int64_t label = -1;
  void* out[] = {image.data(), &label};
  const uint32_t id = 4;
  EXPECT_THAT(std::string(Open()->Fill({&id, 1}, out).message()),
              HasSubstr("the PNG image is damaged: the file is truncated"));
}

TEST_F(ImageListTest, DamagedImagesAreReplacedAndLimited) {
  const std::string whole = trainer::ReadFile(dir_ / "image 3.jpg");
  trainer::WriteFile(dir_ / "image 3.jpg", whole.substr(0, whole.size() / 2));
  std::filesystem::remove(dir_ / "image 4.jpg");
  options_.bad_records_max = 2;
  options_.random = false;
  const auto data = Open();
  std::vector<float> images(2 * 3 * 24 * 24);
  int64_t labels[2];
  void* out[] = {images.data(), labels};
  const uint32_t ids[] = {3, 5};
  ASSERT_EQ(data->Fill(ids, out), OkStatus());
  EXPECT_THAT(labels, ElementsAre(0, 0)) << "image 5 has taken the place of 3 and of 4 behind it";
  EXPECT_TRUE(
      std::equal(images.begin(), images.begin() + 3 * 24 * 24, images.begin() + 3 * 24 * 24));
  options_.bad_records_max = 1;
  const Status status = Open()->Fill(ids, out);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot open "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_bad_records is 1"));
}

TEST_F(ImageListTest, OptionsAndListsThatDoNotFit) {
  const auto error = [this] {
    return std::string(OpenImageList(options_, &warnings_).status().message());
  };
  options_.classes = 4;
  EXPECT_THAT(error(), HasSubstr("list:6: the label is \"4\", expected 0 to 3"));
  trainer::WriteFile(dir_ / "list", std::string("image.jpg\n"));
  EXPECT_THAT(error(), HasSubstr("list:1: the line is not a path and a label"));
  options_.size = 0;
  EXPECT_THAT(error(), HasSubstr("size is 0"));
  options_.size = 33;
  EXPECT_THAT(error(), HasSubstr("resize is 32"));
  options_.size = 24;
  options_.area_min = 0;
  EXPECT_THAT(error(), HasSubstr("area_min is 0"));
}

}  // namespace
}  // namespace tandem::reader
