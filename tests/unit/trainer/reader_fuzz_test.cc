// Mutated data files become records or are refused with a message; none crashes or hangs. Parsers
// by name: TANDEM_FUZZ_RUNS files each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/example.pb.h"
#include "tests/support/jpeg_test_util.h"
#include "tests/support/text_fuzz_util.h"
#include "tests/unit/trainer/dataset_test_util.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/criteo.h"
#include "trainer/reader/csv.h"
#include "trainer/reader/example_records.h"
#include "trainer/reader/image_list.h"
#include "trainer/reader/jpeg.h"
#include "trainer/reader/libsvm.h"
#include "trainer/reader/record_io.h"

namespace tandem {
namespace {

constexpr int64_t kBadMax = 3;

struct FuzzFormat {
  const char* name;
  std::string valid;
  std::vector<const char*> pieces;  // that mutations put in
  StatusOr<TrainAndTest> (*open)(const std::string& path);
};

LineReading FuzzReading() { return {.threads = 1, .bad_records_max = kBadMax}; }

StatusOr<TrainAndTest> FuzzCriteo(const std::string& path) {
  CriteoOptions options;
  options.files = {.train = {path}, .test_share = 0.3, .reading = FuzzReading()};
  options.category_ids = 10;
  options.number_ids = 8;
  return OpenCriteo(options);
}

StatusOr<TrainAndTest> FuzzLibSvm(const std::string& path) {
  LibSvmOptions options;
  options.files = {.train = {path}, .test_share = 0.3, .reading = FuzzReading()};
  options.ids = 50;
  options.features_max = 4;
  return OpenLibSvm(options);
}

StatusOr<TrainAndTest> FuzzCsv(const std::string& path) {
  CsvOptions options;
  options.train_path = options.test_path = path;
  options.label_column = "pay";
  options.positive_labels = {"high"};
  options.negative_labels = {"low"};
  options.columns = {{"age", CsvColumn::kNumeric, 4},
                     {"job", CsvColumn::kVocabulary, 3},
                     {"city", CsvColumn::kHash, 5}};
  options.reading = FuzzReading();
  return OpenCsv(options);
}

StatusOr<TrainAndTest> FuzzExamples(const std::string& path) {
  ExampleOptions options;
  options.files = {.train = {path}, .test_share = 0.3, .reading = FuzzReading()};
  options.features = {{"x", "", ExampleFeature::kFloat, {2}},
                      {"label", "", ExampleFeature::kInt64, {1}, 10}};
  return OpenExamples(options);
}

// Records whose features are x and label; their frames are those of `format`.
std::string ExampleFile(RecordFormat format) {
  const TempDir dir;
  auto writer = RecordWriter::Create(dir / "file", format);
  CHECK(writer.ok()) << writer.status();
  for (int i = 0; i < 8; ++i) {
    pb::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    for (int k = 0; k < 2; ++k) features["x"].mutable_float_list()->add_value(k + 0.5f);
    features["label"].mutable_int64_list()->add_value(i);
    CHECK((*writer)->Add(example.SerializeAsString()).ok());
  }
  CHECK((*writer)->Finish().ok());
  return ReadFile(dir / "file");
}

std::string CriteoLines() {
  std::string text;
  for (int i = 0; i < 6; ++i) {
    text += std::to_string(i % 2);
    for (int c = 0; c < 13; ++c) text += c % 4 == i % 4 ? "\t" : "\t" + std::to_string(c * i - 2);
    for (int c = 0; c < 26; ++c) text += c % 5 == i % 5 ? "\t" : "\t68fd1e6" + std::to_string(c);
    text += "\n";
  }
  return text;
}

std::vector<FuzzFormat> Formats() {
  return {
      {"criteo",
       CriteoLines(),
       {"\t", "\t\t\t", "\n", "1\t", "-1e309", "\r\n", "\xff", "0x", "nan"},
       FuzzCriteo},
      {"libsvm",
       "1 1:2 5:3.5 7:-1\n0 qid:3 2:1 # x\n-1 1:1e-3\n+1 3:1 4:1 5:1 6:1\n",
       {":", " 9:9", "#", "qid:", "\n", "1e999", "-", "99999999999999999999", "\t", "\r", "nan"},
       FuzzLibSvm},
      {"csv",
       "age,job,city,pay\n10,smith,Rome,low\n20,cook,Oslo,high\n?,cook,,low\n-1.5,x,y,high\n",
       {",", "\"", "\n", "?", "high", "low", "1e999", "\r\n", "age,job,city,pay\n", "\xff", "nan"},
       FuzzCsv},
      {"tfrecord",
       ExampleFile(RecordFormat::kTfRecord),
       {"\x01", "\xff\xff\xff\xff", "label", "\x7f"},
       FuzzExamples},
      {"recordio",
       ExampleFile(RecordFormat::kRecordIo),
       {"\x01", "\xff\xff\xff\xff", "\x04\x03\x02\x01", "label"},
       FuzzExamples},
  };
}

// What was accepted can be read: fields within their limits.
void CheckData(const Dataset& data) {
  for (const SampleField& field : data.fields()) {
    if (field.desc.dtype != DType::kI64) continue;
    for (const int64_t id : ReadField<int64_t>(data, field.name)) {
      ASSERT_TRUE(id >= 0 && id < field.limit) << field.name << " " << id;
    }
  }
}

TEST(ReaderFuzz, MutatedFiles) {
  const auto [seed, runs] = FuzzRunsOf(2000);
  const TempDir dir;
  const std::string path = dir / "file";
  for (const FuzzFormat& format : Formats()) {
    SCOPED_TRACE(format.name);
    WriteFile(path, format.valid);
    ASSERT_EQ(format.open(path).status(), OkStatus());
    std::mt19937_64 random(seed);
    int64_t loaded = 0;
    for (int64_t i = 0; i < runs; ++i) {
      const std::string text = MutateText(format.valid, format.pieces, random);
      WriteFile(path, text);
      const auto data = format.open(path);
      if (!data.ok()) {
        ASSERT_NE(data.status().message(), "") << "seed " << seed << " run " << i;
        continue;
      }
      ++loaded;
      CheckData(*data->train);
      CheckData(*data->test);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " run " << i << "\n" << text;
      ASSERT_LE(data->warnings.size(), 2 * (kBadMax + 1u));
    }
    std::printf("%s: %lld of %lld mutated files loaded\n", format.name,
                static_cast<long long>(loaded), static_cast<long long>(runs));
    EXPECT_GT(loaded, 0);
    EXPECT_LT(loaded, runs);
  }
}

// Frames have checksums, messages have none: what is in them is mutated alone.
TEST(ReaderFuzz, MutatedMessages) {
  const auto [seed, runs] = FuzzRunsOf(2000);
  std::mt19937_64 random(seed);
  pb::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (int k = 0; k < 2; ++k) features["x"].mutable_float_list()->add_value(k + 0.5f);
  features["label"].mutable_int64_list()->add_value(2);
  const std::string valid = example.SerializeAsString();
  int64_t loaded = 0;
  const char* pieces[] = {"\x0a", "\x12", "\x01", "x", "label", "\xff\xff\xff\xff\x0f"};
  for (int64_t i = 0; i < runs; ++i) {
    const std::string record = MutateText(valid, pieces, random);
    const auto text = DescribeExample(record, 4);
    ASSERT_TRUE(text.ok() || text.status().code() == StatusCode::kDataLoss) << seed << " " << i;
    // Behind and before good ones, so that it alone decides how many there are.
    const TempDir dir;
    auto writer = RecordWriter::Create(dir / "file", RecordFormat::kTfRecord);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const std::string& each : {valid, record, valid, valid, valid}) {
      ASSERT_EQ((*writer)->Add(each), OkStatus());
    }
    ASSERT_EQ((*writer)->Finish(), OkStatus());
    const auto data = FuzzExamples(dir / "file");
    ASSERT_TRUE(data.ok()) << data.status() << " seed " << seed << " run " << i;
    const uint32_t good = data->train->size() + data->test->size();
    ASSERT_TRUE(good == 5 || (good == 4 && data->warnings.size() == 2)) << seed << " " << i;
    loaded += good == 5 ? 1 : 0;
    CheckData(*data->train);
    CheckData(*data->test);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " run " << i;
  }
  EXPECT_GT(loaded, 0);
  EXPECT_LT(loaded, runs);
}

// Lists of images: what is kept of a line are a path and a label in its range.
TEST(ReaderFuzz, MutatedImageLists) {
  const auto [seed, runs] = FuzzRunsOf(2000);
  FLAGS_minloglevel = google::GLOG_ERROR;  // each image that is missing is a warning
  std::mt19937_64 random(seed);
  const TempDir dir;
  std::vector<uint8_t> pixels(20 * 10 * 3, 7);
  WriteFile(dir / "a.jpg", EncodeJpeg(pixels, 20, 10, 3, 80));
  const std::string valid = "# a list\na.jpg 0\n a.jpg\t4 \n\na.jpg 3\r\na.jpg 1\na.jpg 2\n";
  const char* pieces[] = {" ", "\t", "\n", "#", "5", "/", "..", "\xff", "99999999999999999999"};
  ImageListOptions options;
  options.list = dir / "list";
  options.root = dir.path();
  options.classes = 5;
  options.size = 4;
  options.threads = 1;
  options.bad_records_max = kBadMax;
  int64_t read = 0, refused = 0;
  for (int64_t i = 0; i < runs; ++i) {
    WriteFile(options.list, MutateText(valid, pieces, random));
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
    if (!(*data)->Fill({&first, 1}, out).ok()) continue;  // too few of the paths are right
    ++read;
    ASSERT_TRUE(label >= 0 && label < options.classes) << seed << " " << i;
  }
  std::printf("image list: %lld of %lld mutated files read, %lld refused\n",
              static_cast<long long>(read), static_cast<long long>(runs),
              static_cast<long long>(refused));
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

TEST(ReaderFuzz, MutatedImages) {
  const auto [seed, runs] = FuzzRunsOf(2000);
  std::mt19937_64 random(seed);
  std::vector<uint8_t> pixels(61 * 47 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 7);
  const std::string valid[] = {EncodeJpeg(pixels, 61, 47, 3, 80),
                               EncodeJpeg(pixels, 61, 47, 3, 80, true)};
  const char* pieces[] = {"\xff\xd8", "\xff\xd9", "\xff\xda", "\xff\xc4", "\xff\xdb", "\xff\xc2"};
  JpegDecoder decoder;
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
  std::printf("jpeg: %lld of %lld mutated files decoded\n", static_cast<long long>(decoded),
              static_cast<long long>(runs));
  EXPECT_GT(decoded, 0);
  EXPECT_LT(decoded, runs);
}

}  // namespace
}  // namespace tandem
