#include "trainer/reader/criteo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/unit/trainer/reader/dataset_test_util.h"
#include "tests/unit/trainer/reader/record_files_test_util.h"
#include "trainer/reader/input/text_values.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Returns a record with these numbers, and with `category` in every category field.
std::string Record(const std::string& label, const std::vector<std::string>& numbers,
                   const std::string& category, char separator = '\t') {
  std::string line = label;
  for (const std::string& number : numbers) line += separator + number;
  for (size_t i = 0; i < kCriteoCategories; ++i) line += separator + category;
  return line + "\n";
}

const std::vector<std::string> kNumbers = {"",  "-3",  "-2",   "-1",  "0",   "1",         "2",
                                           "3", "4.0", "1000", "1e6", "2.7", "4294967295"};

class CriteoTest : public RecordFilesTest<CriteoOptions, OpenCriteo> {
 protected:
  CriteoOptions Options(const std::string& train) {
    CriteoOptions options = OptionsFor(train);
    options.category_ids = 1000;
    return options;
  }
};

// A missing value has the id 0. Numbers up to -2 have the id 1. The numbers -1, 0, 1 and 2 have the
// ids 2 to 5. A number x above 2 has the id 5 + floor(ln(x)^2): 3 -> 6, 4 -> 6, 1000 -> 52,
// 10^6 -> 195, 2^32 - 1 -> 496. The reader first rounds each number down, so 2.7 has the id of 2.
TEST_F(CriteoTest, NumbersBecomeIds) {
  const auto data = OpenCriteo(Options(Record("1", kNumbers, "05db9164")));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->fields()[0].limit, 13 * 512 + 26 * 1000);
  auto ids = ReadField<int64_t>(*data->train, "ids");
  ASSERT_THAT(ids, SizeIs(39));
  for (size_t i = 0; i < 13; ++i) ids[i] -= static_cast<int64_t>(i * 512);
  EXPECT_THAT(std::vector(ids.begin(), ids.begin() + 13),
              ElementsAre(0, 1, 1, 2, 3, 4, 5, 6, 6, 52, 195, 5, 496));
  EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(1));
}

TEST_F(CriteoTest, NumbersAboveTheLastIdHaveTheLastId) {
  CriteoOptions options = Options(Record("0", kNumbers, ""));
  options.number_ids = 60;
  const auto data = OpenCriteo(options);
  ASSERT_TRUE(data.ok()) << data.status();
  const auto ids = ReadField<int64_t>(*data->train, "ids");
  EXPECT_EQ(ids[9] - 9 * 60, 52);
  EXPECT_EQ(ids[10] - 10 * 60, 59);
  EXPECT_EQ(ids[13], 13 * 60) << "a missing category has the first id";
}

TEST_F(CriteoTest, CategoriesAreHashedByColumn) {
  const std::string text = Record("0", kNumbers, "68fd1e64") + Record("1", kNumbers, "") +
                           Record("0", kNumbers, "68fd1e64") + Record("0", kNumbers, "68fd1e65") +
                           Record("0", kNumbers, "a text of more than eight bytes");
  const auto data = OpenCriteo(Options(text));
  ASSERT_TRUE(data.ok()) << data.status();
  const auto ids = ReadField<int64_t>(*data->train, "ids");
  int equal_columns = 0;
  for (size_t c = 0; c < kCriteoCategories; ++c) {
    const auto id = [&](size_t record) {
      return ids[record * 39 + 13 + c] - static_cast<int64_t>(13 * 512 + c * 1000);
    };
    EXPECT_EQ(id(1), 0);
    EXPECT_EQ(id(0), id(2));
    EXPECT_NE(id(0), id(3));
    for (const size_t record : {0, 3, 4}) {
      EXPECT_GE(id(record), 1);
      EXPECT_LT(id(record), 1000);
    }
    equal_columns += id(0) == ids[13] - 13 * 512 ? 1 : 0;
  }
  EXPECT_LE(equal_columns, 3) << "columns hash differently";
}

TEST_F(CriteoTest, NumbersAsLogarithms) {
  CriteoOptions options = Options(Record("1", kNumbers, "x"));
  options.dense = true;
  const auto data = OpenCriteo(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->fields()[0].limit, 26 * 1000);
  EXPECT_THAT(ReadField<int64_t>(*data->train, "ids"), SizeIs(26));
  const auto dense = ReadField<float>(*data->train, "dense");
  const double expected[] = {0, 0, 0, 0, 0, 1, 2, 3, 4, 1000, 1e6, 2.7, 4294967295.0};
  for (size_t i = 0; i < 13; ++i) EXPECT_FLOAT_EQ(dense[i], std::log1p(expected[i])) << i;
}

TEST_F(CriteoTest, CommasNamesAndAShareForTheTest) {
  std::string text = "label,I1,C1\n";
  for (int i = 0; i < 10; ++i) text += Record(i < 6 ? "0" : "1", kNumbers, "x", ',');
  CriteoOptions options = Options(text);
  options.separator = ',';
  options.files.test_share = 0.3;
  options.files.samples_max = 5;
  const auto data = OpenCriteo(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(ReadField<int64_t>(*data->test, "label"), ElementsAre(1, 1, 1));
}

TEST_F(CriteoTest, SeveralFilesOneBehindTheOther) {
  CriteoOptions options = Options(Record("0", kNumbers, "x"));
  trainer::WriteFile(dir_ / "more", Record("1", kNumbers, "x") + Record("1", kNumbers, "x"));
  trainer::WriteFile(dir_ / "test", Record("1", kNumbers, "x"));
  options.files.train.push_back(dir_ / "more");
  options.files.test = {dir_ / "test"};
  auto data = OpenCriteo(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(0, 1, 1));
  EXPECT_THAT(ReadField<int64_t>(*data->test, "label"), ElementsAre(1));
  options.files.samples_max = 2;
  data = OpenCriteo(options);
  EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(0, 1));
  EXPECT_EQ(data->test->size(), 1u);
}

TEST_F(CriteoTest, EachFileSaysItselfWhetherItNamesTheColumns) {
  CriteoOptions options = Options("label\tI1\n" + Record("0", kNumbers, "x"));
  trainer::WriteFile(dir_ / "more", Record("1", kNumbers, "x") + Record("0", kNumbers, "x"));
  trainer::WriteFile(dir_ / "last", "label\tI1\n" + Record("1", kNumbers, "x"));
  options.files.train.push_back(dir_ / "more");
  options.files.train.push_back(dir_ / "last");
  const auto data = OpenCriteo(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(0, 1, 0, 1));
}

TEST_F(CriteoTest, BadRecords) {
  const std::string good = Record("1", kNumbers, "x");
  auto wrong = kNumbers;
  wrong[4] = "4x";
  const std::string text = good + "1\t2\n" + Record("2", kNumbers, "x") + Record("1", wrong, "x") +
                           good.substr(0, good.size() - 1) + "\textra\n";
  CriteoOptions options = Options(text);
  options.files.reading.bad_records_max = 4;
  const auto data = OpenCriteo(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->size(), 1u);
  EXPECT_THAT(data->warnings,
              ElementsAre(HasSubstr("train:2: the record has 2 fields, expected 40"),
                          HasSubstr("train:3: the label is \"2\", expected 0 or 1"),
                          HasSubstr("train:4: column I5: \"4x\" is not a number"),
                          HasSubstr("train:5: the record has 41 fields, expected 40"),
                          HasSubstr("4 bad records")));
  options.files.reading.bad_records_max = 3;
  EXPECT_THAT(Error(options), HasSubstr("train:5: the record has 41 fields, expected 40"));
}

TEST_F(CriteoTest, OptionsThatDoNotFit) {
  CriteoOptions options = Options(Record("1", kNumbers, "x"));
  options.category_ids = 1;
  EXPECT_THAT(Error(options), HasSubstr("category_ids is 1"));
  options = Options(Record("1", kNumbers, "x"));
  options.number_ids = 6;
  EXPECT_THAT(Error(options), HasSubstr("number_ids is 6"));
  options = Options(Record("1", kNumbers, "x"));
  options.files.test_share = 1;
  EXPECT_THAT(Error(options), HasSubstr("test_share is 1"));
  options.files.test_share = 0.5;
  EXPECT_THAT(Error(options), HasSubstr("a test_share of 0.5 of 1 records selects no record"));
  options.files.test = {dir_ / "train"};
  EXPECT_THAT(Error(options), HasSubstr("both set"));
  options.files.train.clear();
  EXPECT_THAT(Error(options), HasSubstr("train_file is not set"));
}

// The rows of a trained table depend on the hash function, so its results must not change.
TEST(HashToRange, StaysAsItIs) {
  const std::string text = std::string("68fd1e64 and more") + std::string(8, '?');
  const auto hash = [&](size_t size, uint64_t seed) {
    return HashToRange(std::string_view(text).substr(0, size), seed, uint64_t{1} << 32);
  };
  const std::vector<uint64_t> got = {hash(0, 0), hash(1, 0), hash(8, 0),
                                     hash(8, 1), hash(9, 0), hash(17, 25)};
  EXPECT_THAT(got,
              ElementsAre(886242946, 4088503416, 805200710, 953121050, 2395256460, 1769058977));
}

TEST(HashToRange, SpreadsEvenly) {
  std::vector<int> counts(64);
  for (int i = 0; i < 64000; ++i) {
    const std::string text = std::to_string(i) + std::string(8, '\0');
    ++counts[HashToRange(std::string_view(text).substr(0, text.size() - 8), 3, 64)];
  }
  double chi = 0;  // chi-square, 63 degrees of freedom: above 110 once in 4000 hashes
  for (const int count : counts) chi += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi, 110);
}

// Parses `text`. A digit follows `text` in memory, and the parser must not read it.
std::optional<double> Parsed(const std::string& text) {
  const std::string padded = text + std::string(kTextSlack, '7');
  return ParseNumber(std::string_view(padded).substr(0, text.size()));
}

TEST(ParseNumber, TakesNumbersAlone) {
  EXPECT_EQ(Parsed("0"), 0.0);
  EXPECT_EQ(Parsed("-17"), -17.0);
  EXPECT_EQ(Parsed("+1"), 1.0);
  EXPECT_EQ(Parsed("260.0"), 260.0);
  EXPECT_EQ(Parsed("2.5e-3"), 0.0025);
  EXPECT_EQ(Parsed(".5"), 0.5);
  EXPECT_EQ(Parsed("1."), 1.0);
  EXPECT_EQ(Parsed("123456789012345678901"), 123456789012345678901.0);
  for (const char* text :
       {"",      "-",    "+",   "+-1",  "-+1", "1x", "x1", " 1", "1 ", "nan", "inf",
        "1e999", "0x10", "--1", "1.0.", "1e",  ".",  "-.", "1:", "1/", "\xb1"}) {
    EXPECT_EQ(Parsed(text), std::nullopt) << text;
  }
}

// The results must equal those of the library's conversion, for all numbers of digits.
TEST(ParseNumber, GivesTheNearestDouble) {
  uint64_t draw = 1;
  for (int i = 0; i < 20000; ++i) {
    draw = draw * 6364136223846793005u + 1442695040888963407u;
    std::string text = std::to_string(draw >> (i % 60 + 3));
    const size_t point = (draw >> 20) % (text.size() + 1);
    if (i % 3 != 0) text.insert(point, ".");
    if (i % 5 == 0) text.insert(0, "-");
    ASSERT_EQ(Parsed(text), std::strtod(text.c_str(), nullptr)) << text;
  }
}

// Tries every byte at every position in a text of digits.
TEST(ParseDigits, TakesOneToEightDigitsAlone) {
  EXPECT_EQ(ParseDigits(std::string_view("77777777", 0)), std::nullopt);
  for (size_t size = 1; size <= 9; ++size) {
    for (size_t at = 0; at < size; ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string text = std::string("918273645").substr(0, size);
        text[at] = static_cast<char>(byte);
        const bool digits = size <= 8 && byte >= '0' && byte <= '9';
        const std::string padded = text + std::string(kTextSlack, '7');
        const auto parsed = ParseDigits(std::string_view(padded).substr(0, size));
        ASSERT_EQ(parsed.has_value(), digits) << text;
        ASSERT_EQ(parsed.value_or(0), digits ? std::stoul(text) : 0);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::reader
