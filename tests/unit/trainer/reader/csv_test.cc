#include "trainer/reader/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/unit/trainer/test_files.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* kTrain =
    "age, job, city, pay\n"
    "10, smith, Rome, low\n"
    "20, cook , Oslo, high\n"
    "\n"
    "30, smith, Bern, low\n"
    "40, ?, Rome, high.\n";

class CsvTest : public testing::Test {
 protected:
  CsvOptions Options(const std::string& train, const std::string& test = "") {
    trainer::WriteFile(dir_ / "train", train);
    if (!test.empty()) trainer::WriteFile(dir_ / "test", test);
    CsvOptions options;
    options.train_path = dir_ / "train";
    if (!test.empty()) options.test_path = dir_ / "test";
    options.label_column = "pay";
    options.positive_labels = {"high", "high."};
    options.negative_labels = {"low"};
    options.columns = {{"age", CsvColumn::kNumeric, 3}, {"job", CsvColumn::kVocabulary, 3}};
    return options;
  }
  // Returns the ids of all records, one record after another, and the labels of all records.
  static std::pair<std::vector<int64_t>, std::vector<int64_t>> Read(const Dataset& data) {
    const auto columns = static_cast<size_t>(data.fields()[0].desc.shape[0]);
    std::vector<int64_t> ids(data.size() * columns), labels(data.size());
    std::vector<uint32_t> all(data.size());
    for (uint32_t i = 0; i < data.size(); ++i) all[i] = i;
    void* out[] = {ids.data(), labels.data()};
    EXPECT_TRUE(data.Fill(all, out).ok());
    return {ids, labels};
  }
  static std::string Error(const CsvOptions& options) {
    return std::string(OpenCsv(options).status().message());
  }

  TempDir dir_;
};

// The bound of "age" is the median of four records, and the ids of "age" are 1 and 2. The ids of
// "job" begin after the three ids of "age"; smith appears twice, cook once.
TEST_F(CsvTest, NumbersCategoriesAndLabels) {
  const auto data = OpenCsv(Options(kTrain));
  ASSERT_TRUE(data.ok()) << data.status();
  const auto [ids, labels] = Read(*data->train);
  EXPECT_THAT(ids, ElementsAre(1, 4, 1, 5, 2, 4, 2, 3));
  EXPECT_THAT(labels, ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(data->train->fields()[0].limit, 6);
  EXPECT_EQ(data->test, nullptr);
  EXPECT_THAT(data->warnings, SizeIs(0));
}

TEST_F(CsvTest, TestDataAreReadWithTheTrainingDatasEyes) {
  const auto data = OpenCsv(Options(kTrain,
                                    "age, job, city, pay\n5,king,Rome,low\n99,cook,x,high\n"
                                    "?,smith,,low\n"));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Read(*data->test).first, ElementsAre(1, 3, 2, 5, 0, 4));
}

TEST_F(CsvTest, ASmallVocabularyKeepsTheFrequentValues) {
  CsvOptions options = Options(kTrain);
  options.columns = {{"city", CsvColumn::kVocabulary, 2}, {"city", CsvColumn::kHash, 1000}};
  const auto data = OpenCsv(options);
  ASSERT_TRUE(data.ok()) << data.status();
  const auto ids = Read(*data->train).first;
  EXPECT_EQ(ids[0], 1);  // the id of Rome
  EXPECT_EQ(ids[2], 0);  // the id of Oslo
  EXPECT_EQ(ids[1], ids[7]) << "Rome has the same hash again";
  EXPECT_NE(ids[1], ids[3]);
  EXPECT_GE(ids[3], 3);
}

// Nine of ten records have the number 0. These records share one bucket, and the other numbers need
// one bucket.
TEST_F(CsvTest, ANumberThatMostRecordsHaveTakesOneBucket) {
  std::string text = "gain, pay\n";
  for (int i = 0; i < 90; ++i) text += "0, low\n";
  for (int i = 1; i <= 10; ++i) text += std::to_string(i) + ", high\n";
  CsvOptions options = Options(text);
  options.columns = {{"gain", CsvColumn::kNumeric, 7}};
  const auto data = OpenCsv(options);
  ASSERT_TRUE(data.ok()) << data.status();
  const auto ids = Read(*data->train).first;
  EXPECT_EQ(ids[0], 1);
  EXPECT_THAT(std::vector(ids.end() - 10, ids.end()), ElementsAre(2, 2, 3, 3, 4, 4, 5, 5, 6, 6));
}

// Tests a column with small and large integers, fractions and negative numbers, in several pieces
// of a file. The ids must ascend with the numbers, with about equally many records per id. A text
// must have the same id in all pieces.
TEST_F(CsvTest, LongColumnsInManyPieces) {
  std::string text = "x, word, pay\n";
  std::vector<double> numbers;
  for (int i = 0; i < 120000; ++i) {
    const int draw = static_cast<int>(i * 7919LL % 120000);
    numbers.push_back(draw % 3 == 0 ? draw / 8.0 : draw % 1000 == 7 ? -draw : draw % 7000);
    text += absl::StrFormat(
        "%.17g,%s,%s\n", numbers.back(),
        i % 2 == 0 ? "often" : "a longer text than most " + std::to_string(i % 3 == 0),
        i % 4 == 0 ? "high" : "low");
  }
  ASSERT_GT(text.size(), size_t{3} << 20) << "less than three pieces";
  CsvOptions options = Options(text);
  options.columns = {{"x", CsvColumn::kNumeric, 21}, {"word", CsvColumn::kVocabulary, 4}};
  options.reading.threads = 2;
  const auto data = OpenCsv(options);
  ASSERT_TRUE(data.ok()) << data.status();
  const auto [ids, labels] = Read(*data->train);
  ASSERT_EQ(labels.size(), numbers.size());
  std::map<int64_t, std::vector<double>> buckets;
  for (size_t i = 0; i < numbers.size(); ++i) {
    buckets[ids[2 * i]].push_back(numbers[i]);
    ASSERT_EQ(labels[i], i % 4 == 0 ? 1 : 0);
    ASSERT_EQ(ids[2 * i + 1], 21 + (i % 2 == 0 ? 1 : i % 3 == 0 ? 3 : 2)) << i;
  }
  ASSERT_THAT(buckets, SizeIs(20));
  double before = -1e9;
  for (const auto& [id, bucket] : buckets) {
    EXPECT_GT(*std::min_element(bucket.begin(), bucket.end()), before) << id;
    before = *std::max_element(bucket.begin(), bucket.end());
    EXPECT_NEAR(static_cast<double>(bucket.size()), 6000, 100) << id;
  }
}

TEST_F(CsvTest, BadRecordsAreLeftOutNamedAndLimited) {
  const std::string text = std::string(kTrain) + "1, smith, Rome\n" + "x, smith, Rome, low\n" +
                           "1, smith, Rome, middle\n" + "1, \"smith, Rome, low\n";
  CsvOptions options = Options(text);
  options.reading.bad_records_max = 4;
  const auto data = OpenCsv(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->size(), 4u);
  EXPECT_THAT(
      data->warnings,
      ElementsAre(
          HasSubstr("train:7: the record has 3 fields, but the first line names 4 columns"),
          HasSubstr("train:8: column \"age\": \"x\" is not a number"),
          HasSubstr("train:9: the label is \"middle\", expected positive_label or negative_label"),
          HasSubstr("train:10: field 2 has no closing quote"), HasSubstr("skipped 4 bad records")));
  options.reading.bad_records_max = 3;
  const Status status = OpenCsv(options).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("train:10: field 2 has no closing quote"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_bad_records is 3 [TD2003]"));
}

TEST_F(CsvTest, QuotedFieldsAreThoseWithoutQuotes) {
  const auto plain = OpenCsv(Options("age,job,town,pay\n10,a b,x,low\n20,c,y,high\n"));
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto quoted =
      OpenCsv(Options("\"age\", \"job\" ,town,\"pay\"\n \"10\" ,\"a b\",\"x, \"\"or\"\" z\",low\n"
                      "20,\"c\",5\" y,\"high\"\n"));
  ASSERT_TRUE(quoted.ok()) << quoted.status();
  EXPECT_EQ(Read(*quoted->train), Read(*plain->train));
  CsvOptions options = Options("age,job,town,pay\n10,\"a,x,low\n");
  EXPECT_THAT(Error(options), HasSubstr("train:2: field 2 has no closing quote"));
  EXPECT_THAT(Error(Options("age,\"job\"s,town,pay\n")),
              HasSubstr("train:1: field 2 has text after its closing quote"));
}

// The address sanitizer checks that the reader does not use fields that only the previous line had.
TEST_F(CsvTest, AShortLineBehindAQuotedOne) {
  CsvOptions options =
      Options("age,job,town,pay\n10,\"a\",\"" + std::string(200, 'x') + "\",\"low\"\n10,\"a\",\"" +
              std::string(5000, 'x') + "\",\"low\nb c\n20,c,y,high\n");
  options.reading.threads = 1;
  options.reading.bad_records_max = 2;
  const auto data = OpenCsv(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->size(), 2u);
}

TEST_F(CsvTest, OptionsThatDoNotFit) {
  CsvOptions options = Options(kTrain);
  options.columns[1].name = "jop";
  EXPECT_THAT(Error(options),
              HasSubstr("there is no column \"jop\" [TD2007]; did you mean \"job\"?"));
  options = Options(kTrain);
  options.columns[0].ids = 1;
  EXPECT_THAT(Error(options), HasSubstr("ids is 1"));
  options = Options(kTrain);
  options.label_column = "wage";
  EXPECT_THAT(Error(options), HasSubstr("\"wage\""));
  options = Options(kTrain, "age, job\n1, cook\n");
  EXPECT_THAT(Error(options), HasSubstr("the columns differ"));
  EXPECT_THAT(Error(Options("age, job, city, pay\n")), HasSubstr("no record"));
  EXPECT_THAT(Error(Options("")), HasSubstr("empty"));
  options.train_path = dir_ / "nothing";
  EXPECT_EQ(OpenCsv(options).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem::reader
