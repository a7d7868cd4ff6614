#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "tests/support/numpy_files.h"
#include "tests/unit/trainer/reader/dataset_test_util.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/input/npy_array.h"
#include "trainer/reader/input/zip_entries.h"
#include "trainer/reader/table/table.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string NpyError(const std::string& file) {
  return std::string(ParseNpy(Bytes(file), "f.npy").status().message());
}

std::string ZipError(const std::string& file) {
  return std::string(ReadZip(Bytes(file), "f.npz").status().message());
}

TEST(NpyArray, ReadsAllTypesAndVersions) {
  for (const int version : {1, 2, 3}) {
    const std::string file = Npy<double>("<f8", "(2, 2)", {1.5, -2, 3, 4}, version);
    const auto array = ParseNpy(Bytes(file), "f.npy");
    ASSERT_EQ(array.status(), OkStatus());
    EXPECT_THAT(array->dims, ElementsAre(2, 2));
    EXPECT_EQ(array->At(1), -2);
  }
  const auto last = [](const std::string& file) { return ParseNpy(Bytes(file), "f")->At(1); };
  EXPECT_EQ(last(Npy<float>("<f4", "(2,)", {0, 0.5f})), 0.5);
  EXPECT_EQ(last(Npy<int32_t>("<i4", "(2,)", {0, -7})), -7);
  EXPECT_EQ(last(Npy<int64_t>("<i8", "(2,)", {0, -7})), -7);
  EXPECT_EQ(last(Npy<uint8_t>("|u1", "(2,)", {0, 200})), 200);
  EXPECT_EQ(last(Npy<uint8_t>("|b1", "(2,)", {0, 1})), 1);
}

TEST(NpyArray, RefusesOtherTypesWithTheConversion) {
  EXPECT_THAT(NpyError(Npy<float>(">f4", "(1,)", {0})), HasSubstr("array.astype(\"float32\")"));
  EXPECT_THAT(NpyError(Npy<float>("|O", "(1,)", {0})), HasSubstr("Python objects"));
  EXPECT_THAT(NpyError(Npy<float>("<U1", "(1,)", {0})), HasSubstr("to_csv"));
  EXPECT_THAT(NpyError(Npy<float>("<f4", "(1, 2)", {0, 1}, 1, true)),
              HasSubstr("numpy.ascontiguousarray"));
}

TEST(NpyArray, RefusesDamagedFiles) {
  const std::string good = Npy<float>("<f4", "(2, 2)", {1, 2, 3, 4});
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_NE(NpyError(good.substr(0, bytes)), "") << bytes;
  }
  EXPECT_THAT(NpyError(good + "x"), HasSubstr("bytes follow the end"));
  // The product of the dimensions exceeds 2^64.
  EXPECT_THAT(NpyError(Npy<float>("<f4", "(4294967296, 4294967296)", {1})),
              HasSubstr("shorter than its array"));
  EXPECT_THAT(NpyError(Npy<float>("<f4", "(0, 3)", {})), HasSubstr("no element"));
  EXPECT_THAT(NpyError(Npy<float>("<f4", "(2, x)", {1})), HasSubstr("not a dictionary"));
}

TEST(ReadZip, StoredAndDeflatedEntries) {
  const std::string large(100000, 'q');
  for (const bool deflated : {false, true}) {
    const std::string file = Zip({{"a.npy", "hello"}, {"b", large}, {"c", ""}}, deflated);
    const auto entries = ReadZip(Bytes(file), "f.npz");
    ASSERT_EQ(entries.status(), OkStatus());
    ASSERT_EQ(entries->size(), 3u);
    EXPECT_EQ((*entries)[0].name, "a.npy");
    EXPECT_EQ(std::string((*entries)[0].bytes.begin(), (*entries)[0].bytes.end()), "hello");
    EXPECT_EQ(std::string((*entries)[1].bytes.begin(), (*entries)[1].bytes.end()), large);
    EXPECT_EQ((*entries)[2].bytes.size(), 0u);
  }
}

TEST(ReadZip, RefusesDamagedFiles) {
  for (const bool deflated : {false, true}) {
    const std::string good = Zip({{"a.npy", "hello, hello, hello"}}, deflated);
    for (size_t bytes = 0; bytes < good.size(); ++bytes) {
      EXPECT_NE(ZipError(good.substr(0, bytes)), "") << bytes;
    }
    std::string changed = good;
    changed[36] ^= 1;  // changes a byte in the compressed data
    EXPECT_THAT(ZipError(changed), HasSubstr("[TD2002]"));
  }
  std::string other = Zip({{"a", "b"}}, false);
  other[other.rfind("PK\x01\x02") + 10] = 12;  // sets the compression method to bzip2
  EXPECT_THAT(ZipError(other), HasSubstr("packed with method 12"));
  std::string large = Zip({{"a", std::string(100, 'a')}}, true);
  const uint32_t size = 0xfffffff0;
  std::memcpy(large.data() + large.rfind("PK\x01\x02") + 24, &size, sizeof(size));
  EXPECT_THAT(ZipError(large), HasSubstr("larger than its packed data allow"));
}

class NumpyTableTest : public testing::Test {
 protected:
  const std::string x_ = Npy<double>("<f8", "(3, 2)", {1, 2, 3, 4, 5, 6});
  const std::string y_ = Npy<int64_t>("<i8", "(3,)", {2, 0, 1});
  TempDir dir_;
};

TEST_F(NumpyTableTest, ArraysAreColumns) {
  trainer::WriteFile(dir_ / "t.npz", Zip({{"x.npy", x_}, {"y.npy", y_}}, true));
  trainer::WriteFile(dir_ / "x.npy", x_);
  trainer::WriteFile(dir_ / "y.npy", y_);
  for (const std::vector<std::string>& files :
       {std::vector<std::string>{dir_ / "t.npz"}, {dir_ / "x.npy", dir_ / "y.npy"}}) {
    TableOptions options;
    options.files = files;
    options.columns = {{"x", ColumnKind::kFloat}, {"y", ColumnKind::kLabel}};
    const auto data = OpenTable(options);
    ASSERT_EQ(data.status(), OkStatus());
    EXPECT_THAT(ReadField<float>(*data->train, "x"), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(ReadField<int64_t>(*data->train, "label"), ElementsAre(2, 0, 1));
    options.columns = {{"x.0", ColumnKind::kIgnore}, {"y", ColumnKind::kTarget}};
    EXPECT_THAT(ReadField<float>(*OpenTable(options)->train, "x"), ElementsAre(2, 4, 6));
  }
}

TEST_F(NumpyTableTest, NotANumberIsMissing) {
  trainer::WriteFile(
      dir_ / "t.npz",
      Zip({{"x.npy", Npy<float>("<f4", "(3,)", {1, std::nanf(""), 3})}, {"y.npy", y_}}, false));
  TableOptions options;
  options.files = {dir_ / "t.npz"};
  options.columns = {{"y", ColumnKind::kLabel}};
  EXPECT_THAT(ReadField<float>(*OpenTable(options)->train, "x"), ElementsAre(1, 2, 3));
}

TEST_F(NumpyTableTest, RefusesArraysThatDoNotFit) {
  TableOptions options;
  const auto error = [&] { return std::string(OpenTable(options).status().message()); };
  trainer::WriteFile(dir_ / "t.npz",
                     Zip({{"x.npy", x_}, {"y.npy", Npy<int64_t>("<i8", "(2,)", {2, 0})}}, false));
  options.files = {dir_ / "t.npz"};
  EXPECT_THAT(error(), HasSubstr("the array has 2 rows, but another array has 3"));
  trainer::WriteFile(dir_ / "t.csv", std::string("x,y\n1,2\n"));
  trainer::WriteFile(dir_ / "x.npy", x_);
  options.files = {dir_ / "t.csv", dir_ / "x.npy"};
  EXPECT_THAT(error(), HasSubstr("has the format npy"));
  trainer::WriteFile(
      dir_ / "b.npz",
      Zip({{"x.npy", x_}, {"y.npy", Npy<float>("<f4", "(3,)", {2, 0, 0.5f})}}, false));
  options.files = {dir_ / "b.npz"};
  options.columns = {{"y", ColumnKind::kLabel}};
  EXPECT_THAT(error(), HasSubstr("b.npz: row 2: column \"y\": 0.5 is not a class"));
}

}  // namespace
}  // namespace tandem::reader
