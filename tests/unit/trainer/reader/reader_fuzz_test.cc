// A parser must accept the records of a mutated data file or reject them with a message. No file
// may cause a crash or a hang. Each parser gets TANDEM_FUZZ_RUNS files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/jpeg_test_util.h"
#include "tests/support/png_test_util.h"
#include "tests/support/reader_formats.h"
#include "tests/support/text_fuzz_util.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/example_records.h"
#include "trainer/reader/images/image_decoder.h"
#include "trainer/reader/images/image_list.h"
#include "trainer/reader/input/record_io.h"

namespace tandem::reader {
namespace {

TEST(ReaderFuzz, MutatedFiles) {
  const auto [seed, runs] = FuzzRunsOf(2000);
  const TempDir dir;
  const std::string path = dir / "file";
  for (const ReaderFormat& format : ReaderFormats()) {
    SCOPED_TRACE(format.name);
    trainer::WriteFile(path, format.valid);
    ASSERT_EQ(format.open(path).status(), OkStatus());
    std::mt19937_64 random(seed);
    int64_t loaded = 0;
    for (int64_t i = 0; i < runs; ++i) {
      const std::string text = MutateText(format.valid, format.pieces, random);
      trainer::WriteFile(path, text);
      const auto data = format.open(path);
      if (!data.ok()) {
        ASSERT_NE(data.status().message(), "") << "seed " << seed << " run " << i;
        continue;
      }
      ++loaded;
      ASSERT_EQ(FaultOf(*data->train), "") << "seed " << seed << " run " << i << "\n" << text;
      ASSERT_EQ(FaultOf(*data->test), "") << "seed " << seed << " run " << i << "\n" << text;
      ASSERT_LE(data->warnings.size(), 2 * (kFormatBadMax + 1u));
    }
    std::printf("%s: %lld of %lld mutated files loaded\n", format.name,
                static_cast<long long>(loaded), static_cast<long long>(runs));
    EXPECT_GT(loaded, 0);
    EXPECT_LT(loaded, runs);
  }
}

// Mutates only the content of messages: frames have checksums, but messages have none.
TEST(ReaderFuzz, MutatedMessages) {
  const auto [seed, runs] = FuzzRunsOf(2000);
  std::mt19937_64 random(seed);
  const std::string valid = ValidExample();
  const ReaderFormat format = ReaderFormatOf("tfrecord");
  int64_t loaded = 0;
  const char* pieces[] = {"\x0a", "\x12", "\x01", "x", "label", "\xff\xff\xff\xff\x0f"};
  for (int64_t i = 0; i < runs; ++i) {
    const std::string record = MutateText(valid, pieces, random);
    const auto text = DescribeExample(record, 4);
    ASSERT_TRUE(text.ok() || text.status().code() == StatusCode::kDataLoss) << seed << " " << i;
    // Valid messages are before and after the mutated message. Thus the number of records shows
    // whether the reader accepted the mutated message.
    const TempDir dir;
    auto writer = RecordWriter::Create(dir / "file", RecordFormat::kTfRecord);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const std::string& each : {valid, record, valid, valid, valid}) {
      ASSERT_EQ((*writer)->Add(each), OkStatus());
    }
    ASSERT_EQ((*writer)->Finish(), OkStatus());
    const auto data = format.open(dir / "file");
    ASSERT_TRUE(data.ok()) << data.status() << " seed " << seed << " run " << i;
    const uint32_t good = data->train->size() + data->test->size();
    ASSERT_TRUE(good == 5 || (good == 4 && data->warnings.size() == 2)) << seed << " " << i;
    loaded += good == 5 ? 1 : 0;
    ASSERT_EQ(FaultOf(*data->train), "") << "seed " << seed << " run " << i;
    ASSERT_EQ(FaultOf(*data->test), "") << "seed " << seed << " run " << i;
  }
  EXPECT_GT(loaded, 0);
  EXPECT_LT(loaded, runs);
}

// Mutates lists of images. Each accepted line must have a path, and a label in its range.
TEST(ReaderFuzz, MutatedImageLists) {
  const auto [seed, runs] = FuzzRunsOf(2000);
  // Hides warnings, because each missing image causes one.
  FLAGS_minloglevel = google::GLOG_ERROR;
  std::mt19937_64 random(seed);
  const TempDir dir;
  std::vector<uint8_t> pixels(20 * 10 * 3, 7);
  trainer::WriteFile(dir / "a.jpg", EncodeJpeg(pixels, 20, 10, 3, 80));
  const std::string valid = "# a list\na.jpg 0\n a.jpg\t4 \n\na.jpg 3\r\na.jpg 1\na.jpg 2\n";
  const char* pieces[] = {" ", "\t", "\n", "#", "5", "/", "..", "\xff", "99999999999999999999"};
  ImageListOptions options;
  options.list = dir / "list";
  options.root = dir.path();
  options.classes = 5;
  options.size = 4;
  options.threads = 1;
  options.bad_records_max = kFormatBadMax;
  int64_t read = 0, refused = 0;
  for (int64_t i = 0; i < runs; ++i) {
    trainer::WriteFile(options.list, MutateText(valid, pieces, random));
    std::vector<std::string> warnings;
    const auto data = OpenImageList(options, &warnings);
    if (!data.ok()) {
      ++refused;
      continue;
    }
    std::vector<float> image(3 * 4 * 4);
    int64_t label = -1;
    void* const out[] = {image.data(), &label};
    const uint32_t first = 0;
    // The batch fails if too few paths of the list are right.
    if (!(*data)->Fill({&first, 1}, out).ok()) continue;
    ++read;
    ASSERT_TRUE(label >= 0 && label < options.classes) << seed << " " << i;
  }
  std::printf("image list: %lld of %lld mutated files read, %lld refused\n",
              static_cast<long long>(read), static_cast<long long>(runs),
              static_cast<long long>(refused));
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

// Decodes mutated images of two valid files. `name`: of the format, for the output.
void DecodeMutatedImages(const char* name, const std::array<std::string, 2>& valid,
                         std::span<const char* const> pieces) {
  const auto [seed, runs] = FuzzRunsOf(2000);
  std::mt19937_64 random(seed);
  ImageDecoder decoder;
  int64_t decoded = 0;
  for (int64_t i = 0; i < runs; ++i) {
    const std::string file = MutateText(valid[i % 2], pieces, random);
    const auto size = decoder.Open(file);
    if (!size.ok()) continue;
    const int width = size->width, height = size->height;
    const ImageRect rect = {width / 3, height / 3, (width + 1) / 2, (height + 1) / 2};
    const auto image = decoder.Decode(rect, {8, 8});
    if (!image.ok()) continue;
    ++decoded;
    int sum = 0;
    for (int at = 0; at < image->width * image->height * 3; ++at) sum += image->rgb[at];
    ASSERT_GE(sum, 0);
  }
  std::printf("%s: %lld of %lld mutated files decoded\n", name, static_cast<long long>(decoded),
              static_cast<long long>(runs));
  EXPECT_GT(decoded, 0);
  EXPECT_LT(decoded, runs);
}

std::vector<uint8_t> Noise() {
  std::vector<uint8_t> pixels(61 * 47 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 7);
  return pixels;
}

TEST(ReaderFuzz, MutatedJpegImages) {
  const char* const pieces[] = {"\xff\xd8", "\xff\xd9", "\xff\xda",
                                "\xff\xc4", "\xff\xdb", "\xff\xc2"};
  DecodeMutatedImages(
      "jpeg", {EncodeJpeg(Noise(), 61, 47, 3, 80), EncodeJpeg(Noise(), 61, 47, 3, 80, true)},
      pieces);
}

TEST(ReaderFuzz, MutatedPngImages) {
  const char* const pieces[] = {"IDAT", "IEND", "PLTE", "tRNS", "IHDR", "\x10"};
  DecodeMutatedImages("png", {EncodePng(Noise(), 61, 47, 3), EncodePng(Noise(), 61, 47, 3, true)},
                      pieces);
}

}  // namespace
}  // namespace tandem::reader
