#include "trainer/reader/libsvm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/reader/dataset_test_util.h"
#include "tests/unit/trainer/reader/record_files_test_util.h"

namespace tandem::reader {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class LibSvmTest : public RecordFilesTest<LibSvmOptions, OpenLibSvm> {
 protected:
  LibSvmOptions Options(const std::string& train) {
    LibSvmOptions options = OptionsFor(train);
    options.ids = 10;
    options.features_max = 3;
    return options;
  }
};

TEST_F(LibSvmTest, FeaturesAreFilledUp) {
  const auto data = OpenLibSvm(Options("+1 1:0.5 3:-2 9:1e-1\n-1 2:1\n0\n1.0 0:7\t4:8 \n"));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(ReadField<int64_t>(*data->train, "ids"),
              ElementsAre(1, 3, 9, 2, 0, 0, 0, 0, 0, 0, 4, 0));
  EXPECT_THAT(ReadField<float>(*data->train, "values"),
              ElementsAre(0.5f, -2.0f, 0.1f, 1.0f, 0, 0, 0, 0, 0, 7.0f, 8.0f, 0));
  EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(1, 0, 0, 1));
  EXPECT_EQ(data->train->fields()[0].limit, 10);
}

TEST_F(LibSvmTest, ManyPieces) {
  std::string text;
  const int64_t records = 300000;
  for (int64_t i = 0; i < records; ++i) {
    text += absl::StrFormat("%d %d:%d 9:0.5\n", i % 2, i % 7, i);
  }
  ASSERT_GT(text.size(), size_t{3} << 20) << "less than three pieces";
  LibSvmOptions options = Options(text);
  options.files.reading.threads = 2;
  const auto data = OpenLibSvm(options);
  ASSERT_TRUE(data.ok()) << data.status();
  const auto ids = ReadField<int64_t>(*data->train, "ids");
  const auto values = ReadField<float>(*data->train, "values");
  ASSERT_EQ(data->train->size(), records);
  for (int64_t i = 0; i < records; ++i) {
    const auto at = static_cast<size_t>(3 * i);
    ASSERT_EQ(std::vector(&ids[at], &ids[at] + 3), (std::vector<int64_t>{i % 7, 9, 0})) << i;
    ASSERT_EQ(std::vector(&values[at], &values[at] + 3),
              (std::vector{static_cast<float>(i), 0.5f, 0.0f}))
        << i;
  }
}

TEST_F(LibSvmTest, CommentsAndQueriesAreReadOver) {
  const auto data =
      OpenLibSvm(Options("# a comment\n1 qid:7 1:2 # another: 5:5\n -1  2:3\n1#x\n1 qid:8\n"));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(ReadField<int64_t>(*data->train, "ids"),
              ElementsAre(1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(1, 0, 1, 1));
}

TEST_F(LibSvmTest, ManyClasses) {
  LibSvmOptions options = Options("0 1:1\n4 1:1\n2.0 1:1\n");
  options.classes = 5;
  const auto data = OpenLibSvm(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(0, 4, 2));
  options.classes = 4;
  EXPECT_THAT(Error(options), HasSubstr("train:2: the label \"4\" is not one of the 4 classes"));
}

TEST_F(LibSvmTest, AnyIndexWithAHash) {
  LibSvmOptions options = Options("1 5:1 999999999999:2\n0 5:3\n");
  EXPECT_THAT(Error(options), HasSubstr("index 999999999999 is out of range, because ids is 10"));
  options.hash = true;
  const auto data = OpenLibSvm(options);
  ASSERT_TRUE(data.ok()) << data.status();
  const auto ids = ReadField<int64_t>(*data->train, "ids");
  EXPECT_EQ(ids[0], ids[3]);
  EXPECT_THAT(std::vector({ids[0], ids[1]}), Each(testing::AllOf(testing::Ge(1), testing::Lt(10))));
}

TEST_F(LibSvmTest, BadRecords) {
  const std::pair<const char*, const char*> cases[] = {
      {"2 1:1", "the label \"2\" is not one of the 2 classes"},
      {"x 1:1", "the label \"x\" is not one of the 2 classes"},
      {"0.5 1:1", "the label \"0.5\" is not one of the 2 classes"},
      {"1 1", "\"1\" is not a feature, expected INDEX:VALUE"},
      {"1 1:", "\"1:\" is not a feature, expected INDEX:VALUE"},
      {"1 :1", "\":1\" is not a feature, expected INDEX:VALUE"},
      {"1 -1:1", "\"-1:1\" is not a feature, expected INDEX:VALUE"},
      {"1 1:2:3", "\"1:2:3\" is not a feature, expected INDEX:VALUE"},
      {"1 1:nan", "\"1:nan\" is not a feature, expected INDEX:VALUE"},
      {"1 1:1e300", "\"1:1e300\" is not a feature, expected INDEX:VALUE"},
      {"1 qid:x 1:1", "\"qid:x\" is not a query id"},
      {"1 1:1 qid:3", "\"qid:3\" is not a feature, expected INDEX:VALUE"},
      {"1 3:1 2:1", "index 2 follows index 3"},
      {"1 3:1 3:1", "index 3 follows index 3"},
      {"1 10:1", "index 10 is out of range, because ids is 10"},
      {"1 1:1 2:1 3:1 4:1", "the record has 4 features, but features_max is 3"},
  };
  for (const auto& [line, message] : cases) {
    LibSvmOptions options = Options(std::string("1 1:1\n") + line + "\n0 2:2\n");
    EXPECT_THAT(Error(options), HasSubstr(std::string("train:2: ") + message)) << line;
    options.files.reading.bad_records_max = 1;
    const auto data = OpenLibSvm(options);
    ASSERT_TRUE(data.ok()) << line;
    EXPECT_THAT(ReadField<int64_t>(*data->train, "ids"), ElementsAre(1, 0, 0, 2, 0, 0)) << line;
  }
}

TEST_F(LibSvmTest, OptionsThatDoNotFit) {
  LibSvmOptions options = Options("1 1:1\n");
  options.ids = 1;
  EXPECT_THAT(Error(options), HasSubstr("ids is 1"));
  options = Options("1 1:1\n");
  options.features_max = 0;
  EXPECT_THAT(Error(options), HasSubstr("features_max is 0"));
  options = Options("1 1:1\n");
  options.classes = 1;
  EXPECT_THAT(Error(options), HasSubstr("classes is 1"));
}

}  // namespace
}  // namespace tandem::reader
