#include "trainer/reader/example_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/example.pb.h"
#include "tests/unit/trainer/reader/dataset_test_util.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/input/record_io.h"
#include "trainer/reader/libsvm.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Returns a record with the features x (two floats), label (an integer) and pixels (two bytes).
std::string Record(float x, int64_t label, const std::string& pixels) {
  pb::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["x"].mutable_float_list()->add_value(x);
  features["x"].mutable_float_list()->add_value(-x);
  features["label"].mutable_int64_list()->add_value(label);
  features["pixels"].mutable_bytes_list()->add_value(pixels);
  return example.SerializeAsString();
}

class ExampleRecordsTest : public testing::Test {
 protected:
  ExampleOptions Options(const std::vector<std::string>& records,
                         RecordFormat format = RecordFormat::kTfRecord) {
    const std::string path = dir_ / absl::StrFormat("file%d", files_++);
    auto writer = RecordWriter::Create(path, format);
    CHECK(writer.ok()) << writer.status();
    for (const std::string& record : records) CHECK((*writer)->Add(record).ok());
    CHECK((*writer)->Finish().ok());
    ExampleOptions options;
    options.files.train = {path};
    options.features = {{"x", "", ExampleFeature::kFloat, {2}},
                        {"label", "", ExampleFeature::kInt64, {1}, 10},
                        {"pixels", "img", ExampleFeature::kBytes, {1, 1, 2}, 0, 0.5f}};
    return options;
  }
  static std::string Error(const ExampleOptions& options) {
    return std::string(OpenExamples(options).status().message());
  }

  TempDir dir_;
  int files_ = 0;
};

TEST_F(ExampleRecordsTest, FeaturesAreFields) {
  for (const RecordFormat format : {RecordFormat::kTfRecord, RecordFormat::kRecordIo}) {
    const auto data = OpenExamples(
        Options({Record(1, 2, "\x01\xff"), Record(3, 4, std::string(2, '\0'))}, format));
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_THAT(ReadField<float>(*data->train, "x"), ElementsAre(1, -1, 3, -3));
    EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(2, 4));
    EXPECT_THAT(ReadField<float>(*data->train, "img"), ElementsAre(0.5f, 127.5f, 0, 0));
    EXPECT_EQ(data->train->fields()[1].limit, 10);
  }
}

TEST_F(ExampleRecordsTest, BadRecordsAreLeftOut) {
  pb::Example none;
  std::string wrong_kind = Record(1, 2, "ab");
  none.ParseFromString(wrong_kind);
  (*none.mutable_features()->mutable_feature())["x"].mutable_int64_list()->add_value(1);
  wrong_kind = none.SerializeAsString();
  none.mutable_features()->mutable_feature()->erase("label");
  pb::Example two;
  two.ParseFromString(Record(1, 2, "ab"));
  (*two.mutable_features()->mutable_feature())["pixels"].mutable_bytes_list()->add_value("cd");
  ExampleOptions options =
      Options({Record(1, 2, "ab"), "no message", Record(1, 10, "ab"), Record(1, 2, "abc"),
               two.SerializeAsString(), wrong_kind, Record(5, 6, "ab"), none.SerializeAsString()});
  options.files.reading.bad_records_max = 6;
  const auto data = OpenExamples(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(2, 6));
  EXPECT_THAT(data->warnings,
              ElementsAre(HasSubstr("is not a tf.train.Example"),
                          HasSubstr("feature \"label\": 10 is out of range, expected 0 to 9"),
                          HasSubstr("feature \"pixels\" has 3 values, expected 2"),
                          HasSubstr("\"pixels\" has 2 byte strings, expected 1"),
                          HasSubstr("feature \"x\" contains int64"),
                          testing::AnyOf(HasSubstr("the record has no feature \"label\""),
                                         HasSubstr("feature \"x\" contains int64")),
                          HasSubstr("skipped 6 bad records")));
  options.files.reading.bad_records_max = 1;
  EXPECT_THAT(Error(options), HasSubstr("max_bad_records is 1"));
}

// A feature whose name is not UTF-8 matches no requested feature. No warning may be printed.
TEST_F(ExampleRecordsTest, NamesThatAreNoText) {
  std::string record = Record(1, 2, "ab");
  record[record.find("label")] = '\xff';
  ExampleOptions options = Options({Record(1, 2, "ab"), record});
  testing::internal::CaptureStderr();
  const std::string error = Error(options);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(error, HasSubstr("the record has no feature \"label\""));
}

TEST_F(ExampleRecordsTest, DamageThatEndsAFile) {
  ExampleOptions options = Options({Record(1, 2, "ab"), Record(3, 4, "ab")});
  options.files.reading.bad_records_max = 100;
  std::string bytes = trainer::ReadFile(options.files.train[0]);
  trainer::WriteFile(options.files.train[0], bytes.substr(0, bytes.size() - 3));
  EXPECT_THAT(Error(options), HasSubstr("the file ends in the middle of a record"));
}

TEST_F(ExampleRecordsTest, AFileThatChangesLater) {
  const ExampleOptions options = Options({Record(1, 2, "ab"), Record(3, 4, "ab")});
  const auto data = OpenExamples(options);
  ASSERT_TRUE(data.ok()) << data.status();
  std::filesystem::resize_file(options.files.train[0], 20);
  float x[2], img[2];
  int64_t label;
  void* out[] = {x, &label, img};
  const uint32_t id = 1;
  const Status status = data->train->Fill({&id, 1}, out);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was truncated while it was read"));
}

TEST_F(ExampleRecordsTest, OptionsThatDoNotFit) {
  ExampleOptions options = Options({Record(1, 2, "ab")});
  options.features[0].dims = {0};
  EXPECT_THAT(Error(options), HasSubstr("feature \"x\""));
  options.features[0].dims = {1 << 20, 1 << 20};
  EXPECT_THAT(Error(options), HasSubstr("feature \"x\""));
  options.features[0].name = "";
  EXPECT_THAT(Error(options), HasSubstr("without a name"));
  options.features.clear();
  EXPECT_THAT(Error(options), HasSubstr("names no feature"));
}

// Samples of any dataset can be written as Example messages. Reading these messages must give the
// same samples.
TEST_F(ExampleRecordsTest, SamplesOfOtherFormats) {
  trainer::WriteFile(dir_ / "libsvm", std::string("1 1:0.5\n0 2:3 4:5\n"));
  LibSvmOptions libsvm;
  libsvm.files.train = {dir_ / "libsvm"};
  libsvm.ids = 5;
  libsvm.features_max = 2;
  const auto from = OpenLibSvm(libsvm);
  ASSERT_TRUE(from.ok()) << from.status();
  std::vector<std::string> records;
  for (uint32_t id = 0; id < 2; ++id) records.push_back(ExampleOf(*from->train, id).value());
  ExampleOptions options = Options(records);
  options.features = {{"ids", "", ExampleFeature::kInt64, {2}, 5},
                      {"values", "", ExampleFeature::kFloat, {2}},
                      {"label", "", ExampleFeature::kInt64, {1}, 2}};
  const auto data = OpenExamples(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(ReadField<int64_t>(*data->train, "ids"), ReadField<int64_t>(*from->train, "ids"));
  EXPECT_EQ(ReadField<float>(*data->train, "values"), ReadField<float>(*from->train, "values"));
  EXPECT_EQ(ReadField<int64_t>(*data->train, "label"), ReadField<int64_t>(*from->train, "label"));
  EXPECT_EQ(DescribeExample(records[1], 1).value(),
            "ids: int64 [2] 2 ...\nlabel: int64 [1] 0\nvalues: float [2] 3 ...\n");
}

}  // namespace
}  // namespace tandem::reader
