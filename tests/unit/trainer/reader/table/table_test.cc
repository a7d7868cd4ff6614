#include "trainer/reader/table/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <set>

#include "tests/unit/trainer/reader/dataset_test_util.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/table/csv_records.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

using Records = std::vector<std::vector<std::string>>;

// Returns all records of a text. A malformed record is {"bad", its message}.
Records Split(std::string_view text) {
  CsvRecords records(text, ',');
  Records out;
  for (;;) {
    const StatusOr<bool> found = records.Next();
    if (!found.ok()) {
      out.push_back({"bad", std::string(found.status().message())});
      continue;
    }
    if (!*found) return out;
    out.emplace_back(records.fields().begin(), records.fields().end());
  }
}

TEST(CsvRecords, SplitsQuotedFieldsOfSeveralLines) {
  EXPECT_EQ(Split("a,b\r\n\n \"x, \"\"y\"\"\nz\" , 2\n,\n\"\",1"),
            (Records{{"a", "b"}, {"x, \"y\"\nz", "2"}, {"", ""}, {"", "1"}}));
}

TEST(CsvRecords, ContinuesAfterMalformedQuotes) {
  EXPECT_EQ(Split("\"a\"b,1\nc,2\n\"x\ny\"z,3\n\"d,3\ne,4\n"),
            (Records{{"bad", "field 1 has text after its closing quote"},
                     {"c", "2"},
                     {"bad", "field 1 has text after its closing quote"},
                     {"y\"z", "3"},
                     {"bad", "field 1 has no closing quote"},
                     {"e", "4"}}));
}

TEST(CsvRecords, CountsLines) {
  CsvRecords records("\xef\xbb\xbfname\n\n\"1\n2\"\n3", ',');
  std::vector<int64_t> lines;
  while (records.Next().value()) lines.push_back(records.line());
  EXPECT_THAT(lines, ElementsAre(1, 3, 5));
}

TEST(ParseTime, DatesAndTimes) {
  EXPECT_EQ(ParseTime("1970-01-02"), 86400.0);
  EXPECT_EQ(ParseTime("2026-11-24T18:30:05Z"), 1795545005.0);
  EXPECT_EQ(ParseTime("2026-11-24 19:30:05.25+01:00"), 1795545005.25);
  EXPECT_EQ(ParseTime("2026-11-24T18:30"), 1795545000.0);
  EXPECT_EQ(ParseTime("12.5"), 12.5);
  for (const char* text : {"2026-02-30", "2026-1-01", "2026-11-24T25:00", "2026-11-24T10:00x",
                           "2026-11-24T10:00+99:00", ""}) {
    EXPECT_EQ(ParseTime(text), std::nullopt) << text;
  }
}

class TableTest : public testing::Test {
 protected:
  // Returns options for a file with this text.
  TableOptions Options(const std::string& text) {
    trainer::WriteFile(dir_ / "t.csv", text);
    TableOptions options;
    options.files = {dir_ / "t.csv"};
    return options;
  }
  static std::string Error(const TableOptions& options) {
    return std::string(OpenTable(options).status().message());
  }
  static std::vector<std::string> FieldsOf(const Dataset& data) {
    std::vector<std::string> out;
    for (const SampleField& field : data.fields()) {
      out.push_back(field.name + " " + ToString(field.desc) + " " + std::to_string(field.limit));
    }
    return out;
  }

  TempDir dir_;
};

constexpr const char* kMixed =
    "when,age,city,job,w,kind\n"
    "2026-01-01,10,Rome,cook,1,b\n"
    "2026-01-02,?,Oslo,smith,0.5,a\n"
    "2026-01-03,20,,cook,2,c\n"
    "2026-01-04,30,Rome,NA,1,a\n";

TEST_F(TableTest, InfersKindsAndConvertsThem) {
  TableOptions options = Options(kMixed);
  options.columns = {
      {"kind", ColumnKind::kLabel}, {"w", ColumnKind::kWeight}, {"job", ColumnKind::kOneHot}};
  options.missing_indicator = true;
  const auto data = OpenTable(options);
  ASSERT_EQ(data.status(), OkStatus());
  const Dataset& train = *data->train;
  EXPECT_THAT(FieldsOf(train),
              ElementsAre("x f32[5] 0", "ids i64[1] 3", "label i64[1] 3", "weight f32[1] 0"));
  // The elements of x are: seconds since the first time, age with its mean, cook, smith, and the
  // indicator of age.
  EXPECT_THAT(ReadField<float>(train, "x"), ElementsAre(0, 10, 1, 0, 0, 86400, 20, 0, 1, 1, 172800,
                                                        20, 1, 0, 0, 259200, 30, 0, 0, 0));
  EXPECT_THAT(ReadField<int64_t>(train, "ids"), ElementsAre(1, 2, 0, 1));
  EXPECT_THAT(ReadField<int64_t>(train, "label"), ElementsAre(1, 0, 2, 0));
  EXPECT_THAT(ReadField<float>(train, "weight"), ElementsAre(1, 0.5f, 2, 1));
  EXPECT_EQ(data->test, nullptr);
  EXPECT_THAT(data->columns,
              ElementsAre(HasSubstr("when: TIME (inferred)"),
                          HasSubstr("age: FLOAT (inferred), mean 20, deviation 8.16"),
                          "column city: CATEGORY (inferred), 2 values: Rome, Oslo; 1 missing",
                          "column job: ONE_HOT, 2 values: cook, smith; 1 missing",
                          HasSubstr("w: WEIGHT"), "column kind: LABEL, 3 classes: a, b, c",
                          "rows: 4 for training, 0 for validation, 0 for test"));
}

TEST_F(TableTest, StandardisesWithTheTrainingRowsOnly) {
  TableOptions options = Options("x,y\n1,0.5\n3,1\n5,-2\n");
  trainer::WriteFile(dir_ / "test.csv", std::string("x,y\n7,1\n,2\n"));
  options.test_files = {dir_ / "test.csv"};
  options.columns = {{"y", ColumnKind::kTarget}};
  options.standardise = true;
  const auto data = OpenTable(options);
  ASSERT_EQ(data.status(), OkStatus());
  const float unit = 1 / std::sqrt(8.0f / 3);
  EXPECT_THAT(ReadField<float>(*data->train, "x"),
              testing::Pointwise(testing::FloatEq(), {-2 * unit, 0.0f, 2 * unit}));
  EXPECT_THAT(ReadField<float>(*data->test, "x"),
              testing::Pointwise(testing::FloatEq(), {4 * unit, 0.0f}));
  EXPECT_THAT(ReadField<float>(*data->train, "target"), ElementsAre(0.5f, 1, -2));
}

// The order of the vocabulary is the order of the training rows, whichever rows precede them in the
// file.
TEST_F(TableTest, UnknownCategoriesAreId0) {
  TableOptions options = Options("c,y\nb,0\na,1\nb,1\n");
  trainer::WriteFile(dir_ / "test.csv", std::string("c,y\nz,1\na,0\n"));
  options.test_files = {dir_ / "test.csv"};
  options.columns = {{"y", ColumnKind::kLabel}};
  const auto data = OpenTable(options);
  ASSERT_EQ(data.status(), OkStatus());
  EXPECT_THAT(ReadField<int64_t>(*data->train, "ids"), ElementsAre(1, 2, 1));
  EXPECT_THAT(ReadField<int64_t>(*data->test, "ids"), ElementsAre(0, 2));
}

TEST_F(TableTest, ClassesAreSortedAsNumbersOrGiven) {
  TableOptions options = Options("x,y\n1,10\n2,2\n3,-1\n");
  options.columns = {{"y", ColumnKind::kLabel}};
  EXPECT_THAT(ReadField<int64_t>(*OpenTable(options)->train, "label"), ElementsAre(2, 1, 0));
  options.columns = {{"y", ColumnKind::kLabel, {"10", "2", "-1", "7"}}};
  const auto data = OpenTable(options);
  EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(0, 1, 2));
  EXPECT_EQ(data->train->fields()[1].limit, 4);
}

TEST_F(TableTest, SeveralLabelsAndSeveralTargets) {
  TableOptions options = Options("x,y1,y2\n1,0,1\n2,1,1\n3,0,0\n");
  options.columns = {{"y*", ColumnKind::kLabel}};
  const auto labels = OpenTable(options);
  EXPECT_THAT(FieldsOf(*labels->train), ElementsAre("x f32[1] 0", "label i64[2] 2"));
  EXPECT_THAT(ReadField<int64_t>(*labels->train, "label"), ElementsAre(0, 1, 1, 1, 0, 0));
  options.columns = {{"y*", ColumnKind::kTarget}};
  EXPECT_THAT(ReadField<float>(*OpenTable(options)->train, "target"),
              ElementsAre(0, 1, 1, 1, 0, 0));
  options = Options("x,y1,y2\n1,0,1\n2,1,2\n3,0,0\n");
  options.columns = {{"y*", ColumnKind::kLabel}};
  EXPECT_THAT(Error(options), HasSubstr("label column \"y2\" has 3 classes"));
}

// Returns a csv text with one feature, whose rows are 0 to 999.
std::string Numbered() {
  std::string text = "x,y\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + "," + std::to_string(i % 3) + "\n";
  return text;
}

TEST_F(TableTest, SplitDependsOnRowAndSeedOnly) {
  TableOptions options = Options(Numbered());
  options.columns = {{"y", ColumnKind::kLabel}};
  options.split = {0.8, 0.1, 0.1};
  const auto rows = [](const Dataset& data) {
    const auto x = ReadField<float>(data, "x");
    return std::set<float>(x.begin(), x.end());
  };
  const auto first = OpenTable(options);
  const auto train = rows(*first->train), test = rows(*first->test);
  options.evaluate_validation = true;
  const auto validation = rows(*OpenTable(options)->test);
  EXPECT_NEAR(static_cast<double>(train.size()), 800, 40);
  EXPECT_NEAR(static_cast<double>(validation.size()), 100, 30);
  EXPECT_EQ(train.size() + validation.size() + test.size(), 1000u);
  // A damaged row must not change the part (training, validation or test) of another row.
  std::string damaged = Numbered();
  damaged.replace(damaged.find("\n17,"), 4, "\n1..7,");
  TableOptions with_bad = Options(damaged);
  with_bad.columns = options.columns;
  with_bad.split = options.split;
  with_bad.bad_rows_max = 1;
  auto expected = rows(*OpenTable(with_bad)->train);
  expected.insert(17);
  auto all = train;
  all.insert(17);
  EXPECT_EQ(expected, all);
  with_bad.split_seed = 2;
  EXPECT_NE(rows(*OpenTable(with_bad)->train), train);
}

TEST_F(TableTest, NamesAllBadValuesUpToALimit) {
  TableOptions options = Options("x,z,y\n1,2,0\na,b,1\n3,4\n5,6,\n1,\"2\n");
  options.columns = {
      {"x", ColumnKind::kFloat}, {"z", ColumnKind::kFloat}, {"y", ColumnKind::kLabel}};
  const std::string file = dir_ / "t.csv", error = Error(options);
  for (const std::string& part :
       {file + ":3: column \"x\": \"a\" is not a number; column \"z\": \"b\" is not a number\n",
        file + ":4: the row has 2 fields, but the first line names 3 columns\n",
        file + ":5: column \"y\": the value is missing, and a label needs one\n",
        file + ":6: field 2 has no closing quote\n",
        std::string("4 bad rows, but max_bad_records is 0 [TD2003]; hint: ")}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
  options.bad_rows_max = 4;
  const auto data = OpenTable(options);
  ASSERT_EQ(data.status(), OkStatus());
  EXPECT_EQ(data->train->size(), 1u);
  EXPECT_THAT(data->warnings, SizeIs(5));
  std::string many = "x,y\n";
  for (int i = 0; i < 12; ++i) many += "1,1\n1.5,q\n";
  options = Options(many);
  options.columns = {{"y", ColumnKind::kTarget}};
  EXPECT_THAT(Error(options), HasSubstr("\nand 2 more\n12 bad rows"));
}

TEST_F(TableTest, MisspelledColumnsAndWrongKinds) {
  TableOptions options = Options("age,city,pay\n1,Rome,0.5\n2,Oslo,1\n");
  options.columns = {{"agee", ColumnKind::kFloat}, {"payy", ColumnKind::kLabel}};
  EXPECT_THAT(Error(options), HasSubstr("there is no column \"agee\" [TD2007]; did you mean "
                                        "\"age\"?\nthere is no column \"payy\""));
  options.columns = {};
  EXPECT_THAT(Error(options), HasSubstr("no column is a label or a target"));
  options.columns = {{"pay", ColumnKind::kLabel}};
  EXPECT_THAT(Error(options), HasSubstr("\"0.5\" is not a class"));
  options.columns = {{"pay", ColumnKind::kTarget}, {"city", ColumnKind::kLabel}};
  EXPECT_THAT(Error(options), HasSubstr("expected one of the two kinds"));
  options.columns = {{"*", ColumnKind::kTarget}};
  options.columns[0].kind = ColumnKind::kLabel;
  EXPECT_THAT(Error(options), HasSubstr("no column is a feature"));
}

TEST_F(TableTest, FilesThatAreNoTable) {
  TableOptions options = Options("a;b\n1;2\n");
  options.columns = {{"b", ColumnKind::kLabel}};
  EXPECT_THAT(Error(options), HasSubstr("separator: \";\""));
  options = Options("PAR1xyz");
  EXPECT_THAT(Error(options), HasSubstr("pandas.read_parquet('" + dir_ / "t.csv"));
  options = Options("");
  EXPECT_THAT(Error(options), HasSubstr("the file is empty"));
  options = Options("a,a\n1,2\n");
  EXPECT_THAT(Error(options), HasSubstr("two columns have the name \"a\""));
  options.files = {dir_ / "none.csv"};
  EXPECT_THAT(Error(options), HasSubstr("[TD2001]"));
}

TEST_F(TableTest, ReadsGzip) {
  const std::string text = "x,y\n1,a\n2,b\n";
  trainer::WriteFile(dir_ / "t.csv.gz", trainer::Gzip({text.begin(), text.end()}));
  TableOptions options;
  options.files = {dir_ / "t.csv.gz"};
  options.columns = {{"y", ColumnKind::kLabel}};
  const auto data = OpenTable(options);
  ASSERT_EQ(data.status(), OkStatus());
  EXPECT_THAT(ReadField<float>(*data->train, "x"), ElementsAre(1, 2));
}

// A model cannot predict a class that only a test file has.
TEST_F(TableTest, UnknownClassOfATestFileIsABadRow) {
  TableOptions options = Options("x,y\n1,a\n2,b\n");
  trainer::WriteFile(dir_ / "test.csv", std::string("x,y\n1,a\n2,z\n"));
  options.test_files = {dir_ / "test.csv"};
  options.columns = {{"y", ColumnKind::kLabel}};
  EXPECT_THAT(Error(options),
              HasSubstr("test.csv:3: column \"y\": the class \"z\" is not in the training files"));
}

TEST_F(TableTest, UsesTheFirstTrainingRows) {
  TableOptions options = Options(Numbered());
  options.columns = {{"y", ColumnKind::kLabel}};
  options.samples_max = 10;
  const auto data = OpenTable(options);
  EXPECT_EQ(data->train->size(), 10u);
  EXPECT_THAT(data->columns, testing::Contains(HasSubstr("x: FLOAT (inferred), mean 4.5")));
}

// Columns in memory, with the values of kMixed.
std::shared_ptr<MemoryColumns> MixedColumns() {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  auto columns = std::make_shared<MemoryColumns>();
  columns->name = "the frame";
  columns->columns = {
      {"when", true, {}, {"2026-01-01", "2026-01-02", "2026-01-03T00:00:00", "2026-01-04"}},
      {"age", false, {10, kNone, 20, 30}, {}},
      {"city", true, {}, {"Rome", "Oslo", "", "Rome"}},
      {"job", true, {}, {"cook", "smith", "cook", "NA"}},
      {"w", false, {1, 0.5, 2, 1}, {}},
      {"kind", true, {}, {"b", "a", "c", "a"}}};
  return columns;
}

TEST_F(TableTest, ColumnsInMemoryAreThoseOfAFile) {
  constexpr int kTimes = 8;  // how often the rows are in the table
  std::string text = kMixed;
  const std::string rows = text.substr(text.find('\n') + 1);
  const std::shared_ptr<MemoryColumns> columns = MixedColumns(), once = MixedColumns();
  for (int i = 1; i < kTimes; ++i) {
    text += rows;
    for (size_t c = 0; c < columns->columns.size(); ++c) {
      MemoryColumn &to = columns->columns[c], &from = once->columns[c];
      to.numbers.insert(to.numbers.end(), from.numbers.begin(), from.numbers.end());
      to.texts.insert(to.texts.end(), from.texts.begin(), from.texts.end());
    }
  }
  TableOptions options = Options(text);
  options.columns = {
      {"kind", ColumnKind::kLabel}, {"w", ColumnKind::kWeight}, {"job", ColumnKind::kOneHot}};
  options.missing_indicator = options.standardise = true;
  options.split = {0.5, 0.25, 0.25};
  const auto file = OpenTable(options);
  ASSERT_EQ(file.status(), OkStatus());
  options.files.clear();
  options.memory = columns;
  const auto memory = OpenTable(options);
  ASSERT_EQ(memory.status(), OkStatus());
  EXPECT_EQ(memory->columns, file->columns);
  ASSERT_NE(memory->validation, nullptr);
  for (const auto part : {&TrainAndTest::train, &TrainAndTest::validation, &TrainAndTest::test}) {
    const Dataset &want = *((*file).*part), &got = *((*memory).*part);
    EXPECT_EQ(FieldsOf(got), FieldsOf(want));
    EXPECT_EQ(ReadField<float>(got, "x"), ReadField<float>(want, "x"));
    EXPECT_EQ(ReadField<int64_t>(got, "ids"), ReadField<int64_t>(want, "ids"));
    EXPECT_EQ(ReadField<int64_t>(got, "label"), ReadField<int64_t>(want, "label"));
    EXPECT_EQ(ReadField<float>(got, "weight"), ReadField<float>(want, "weight"));
  }
}

TEST_F(TableTest, ColumnsInMemoryThatDoNotFit) {
  TableOptions options;
  options.columns = {{"kind", ColumnKind::kLabel}};
  const auto error = [&options](const auto& change) {
    const std::shared_ptr<MemoryColumns> columns = MixedColumns();
    change(*columns);
    options.memory = columns;
    return Error(options);
  };
  EXPECT_EQ(error([](MemoryColumns&) {}), "");
  EXPECT_EQ(
      error([](MemoryColumns& c) { c.columns[1].numbers.pop_back(); }),
      "the frame: column \"age\" has 3 rows, but column \"when\" has 4 [TD2007]; hint: give all "
      "columns the same number of rows");
  EXPECT_THAT(error([](MemoryColumns& c) { c.columns[1].name = "when"; }),
              HasSubstr("the frame: two columns have the name \"when\" [TD2007]"));
  EXPECT_THAT(error([](MemoryColumns& c) { c.columns.clear(); }), HasSubstr("has no column"));
  EXPECT_THAT(error([](MemoryColumns& c) {
                for (MemoryColumn& column : c.columns) column.numbers.clear(), column.texts.clear();
              }),
              HasSubstr("the frame has no row [TD2006]"));
  // A row is named by its number, whatever its first cell is.
  EXPECT_THAT(error([](MemoryColumns& c) { c.columns[5].texts[2] = "NA"; }),
              HasSubstr("the frame: row 2: column \"kind\": the value is missing"));
}

// Names with a dot belong to an array only if the columns come from arrays.
TEST_F(TableTest, ColumnsOfArraysInMemory) {
  auto columns = std::make_shared<MemoryColumns>();
  columns->name = "the arrays";
  columns->columns = {
      {"x.0", false, {1, 2}, {}}, {"x.1", false, {3, 4}, {}}, {"y", false, {0, 1}, {}}};
  TableOptions options;
  options.columns = {{"x", ColumnKind::kFloat}, {"y", ColumnKind::kLabel}};
  options.memory = columns;
  EXPECT_THAT(Error(options), HasSubstr("there is no column \"x\" [TD2007]"));
  columns->arrays = true;
  const auto data = OpenTable(options);
  ASSERT_EQ(data.status(), OkStatus());
  EXPECT_THAT(ReadField<float>(*data->train, "x"), ElementsAre(1, 3, 2, 4));
}

// Large whole numbers and close numbers are different categories.
TEST_F(TableTest, NumbersAsCategoriesAreExact) {
  auto columns = std::make_shared<MemoryColumns>();
  columns->columns = {{"id", false, {1234567, 1234568, 1234567, 0.1, 0.1000001}, {}},
                      {"y", false, {0, 1, 0, 1, 0}, {}}};
  TableOptions options;
  options.columns = {{"id", ColumnKind::kCategory}, {"y", ColumnKind::kLabel}};
  options.memory = columns;
  const auto data = OpenTable(options);
  ASSERT_EQ(data.status(), OkStatus());
  EXPECT_THAT(ReadField<int64_t>(*data->train, "ids"), ElementsAre(1, 2, 1, 3, 4));
  EXPECT_THAT(data->columns[0], HasSubstr("4 values: 1234567, 1234568, 0.1, 0.1000001"));
}

}  // namespace
}  // namespace tandem::reader
