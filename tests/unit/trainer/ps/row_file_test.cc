// Tests files with initial rows of a table: each format gives the same rows, and wrong rows are
// rejected with the file, and the row or line.
#include "trainer/ps/row_file.h"

#include "gmock/gmock.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/files/npz.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const RowTable kTable = {.name = "emb", .height = 10, .dim = 2};

class RowFileTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return dir_.path() + "/" + name; }
  std::string Csv(const std::string& text) const {
    WriteFile(Path("rows.csv"), text);
    return Path("rows.csv");
  }
  static std::string Refusal(const std::string& path) {
    const auto rows = ReadRowFile(path, kTable);
    EXPECT_FALSE(rows.ok());
    EXPECT_THAT(std::string(rows.status().message()), HasSubstr(path));
    return std::string(rows.status().message());
  }
  Tensor Ids(const std::vector<int64_t>& ids) {
    Tensor tensor = *Tensor::Make({DType::kI64, {static_cast<int64_t>(ids.size())}}, host_);
    std::copy(ids.begin(), ids.end(), tensor.span<int64_t>().begin());
    return tensor;
  }
  Tensor Values(const std::vector<float>& values, int64_t dim = 2) {
    Tensor tensor =
        *Tensor::Make({DType::kF32, {static_cast<int64_t>(values.size()) / dim, dim}}, host_);
    std::copy(values.begin(), values.end(), tensor.span<float>().begin());
    return tensor;
  }

  CpuDevice host_;
  TempDir dir_;
};

TEST_F(RowFileTest, EachFormatGivesTheSameRows) {
  TensorMap tensors;
  tensors["emb/ids"] = Ids({7, 2, 5});
  tensors["emb/rows"] = Values({1, 2, 3, 4, 5, -6.5});
  tensors["other/ids"] = Ids({1});
  tensors["other/rows"] = Values({9, 9, 9}, 3);
  TensorMap plain;
  plain["ids"] = tensors["emb/ids"];
  plain["rows"] = tensors["emb/rows"];
  ASSERT_TRUE(WriteNpz(Path("a.npz"), tensors).ok());
  ASSERT_TRUE(WriteSafetensors(Path("a.safetensors"), tensors, {}).ok());
  ASSERT_TRUE(WriteNpz(Path("b.npz"), plain).ok());
  for (const std::string& path : {Path("a.npz"), Path("a.safetensors"), Path("b.npz"),
                                  Csv("id,x,y\n7,1,2\n2,3,4\r\n\n5, 5,-6.5\n")}) {
    const auto rows = ReadRowFile(path, kTable);
    ASSERT_TRUE(rows.ok()) << path << ": " << rows.status();
    EXPECT_THAT(rows->ids, ElementsAre(2, 5, 7)) << path;
    EXPECT_THAT(rows->values, ElementsAre(3, 4, 5, -6.5, 1, 2)) << path;
  }
  TensorMap whole;
  whole["emb"] = tensors["emb/rows"];
  ASSERT_TRUE(WriteSafetensors(Path("whole.safetensors"), whole, {}).ok());
  EXPECT_THAT(ReadRowFile(Path("whole.safetensors"), kTable)->ids, ElementsAre(0, 1, 2));
  EXPECT_THAT(ReadRowFile(Csv(""), kTable)->ids, ElementsAre());
}

TEST_F(RowFileTest, AHeaderIsSkippedAndARowIsNot) {
  for (const char* const text :
       {"\xEF\xBB\xBF"
        "7,1,2\n2,3,4\n",
        "\xEF\xBB\xBFid,x,y\n7,1,2\n2,3,4\n", "id,0,1\n7,1,2\n2,3,4\n", ",0,1\n7,1,2\n2,3,4\n",
        "row,a,b\r\n7,1,2\r\n2,3,4\r\n", "row\n7,1,2\n2,3,4\n"}) {
    const auto rows = ReadRowFile(Csv(text), kTable);
    if (std::string_view(text).starts_with("row\n")) {
      EXPECT_THAT(std::string(rows.status().message()), HasSubstr("line 1"));
      continue;
    }
    ASSERT_TRUE(rows.ok()) << text << ": " << rows.status();
    EXPECT_THAT(rows->ids, ElementsAre(2, 7)) << text;
  }
  // These lines are rows with a bad id, and not headers.
  EXPECT_THAT(Refusal(Csv("1.0,2,3\n2,3,4\n")),
              HasSubstr("line 1: \"1.0\" is not the id of a row"));
  EXPECT_THAT(Refusal(Csv("x7,2,3\n2,3,4\n")), HasSubstr("line 1: \"x7\" is not the id of a row"));
  EXPECT_THAT(Refusal(Csv("99999999999999999999,2,3\n")), HasSubstr("line 1"));
}

TEST_F(RowFileTest, WrongRowsAreRefused) {
  EXPECT_THAT(Refusal(Csv("1,2,3\n2,3\n")),
              HasSubstr("line 2 has 1 values, but table \"emb\" has 2 values in a row [TD2105]"));
  EXPECT_THAT(Refusal(Csv("1,2,3,4\n")), HasSubstr("line 1 has 3 values"));
  EXPECT_THAT(Refusal(Csv("1,2,3\n4,5,6\n1,7,8\n")), HasSubstr("row 1 occurs twice [TD2105]"));
  EXPECT_THAT(Refusal(Csv("1,2,nan\n")), HasSubstr("row 1: value 1 is nan"));
  EXPECT_THAT(Refusal(Csv("1,-inf,3\n")), HasSubstr("row 1: value 0 is -inf"));
  EXPECT_THAT(Refusal(Csv("10,2,3\n")), HasSubstr("row 10 is outside table \"emb\""));
  EXPECT_THAT(Refusal(Csv("-1,2,3\n")), HasSubstr("row -1 is outside"));
  EXPECT_THAT(Refusal(Csv("1,2,x\n")), HasSubstr("line 1: \"x\" is not a number [TD2111]"));
  EXPECT_THAT(Refusal(Csv("1,2,\n")), HasSubstr("line 1: \"\" is not a number"));
  EXPECT_THAT(Refusal(Csv("1,2,3\nx,2,3\n")), HasSubstr("line 2: \"x\" is not the id of a row"));
}

TEST_F(RowFileTest, OtherFilesAreRefused) {
  EXPECT_THAT(Refusal(Path("absent.csv")), HasSubstr("cannot be opened"));
  EXPECT_THAT(Refusal(Path("absent.npz")), HasSubstr("cannot be opened"));
  EXPECT_THAT(Refusal(Path("rows.txt")), HasSubstr("expected the end .csv, .npz or .safetensors"));
  TensorMap tensors;
  tensors["emb/ids"] = Ids({1, 2, 3});
  tensors["emb/rows"] = Values({1, 2, 3, 4});
  ASSERT_TRUE(WriteNpz(Path("a.npz"), tensors).ok());
  EXPECT_THAT(Refusal(Path("a.npz")), HasSubstr("must be i64 [2], one for each row"));
  tensors["emb/ids"] = *Tensor::Make({DType::kI32, {2}}, host_);
  ASSERT_TRUE(WriteSafetensors(Path("a.safetensors"), tensors, {}).ok());
  EXPECT_THAT(Refusal(Path("a.safetensors")), HasSubstr("must be i64 [2], one for each row"));
  tensors.erase("emb/ids");
  ASSERT_TRUE(WriteNpz(Path("a.npz"), tensors).ok());
  EXPECT_THAT(Refusal(Path("a.npz")), HasSubstr("has rows of table \"emb\", but not their ids"));
  tensors["emb/ids"] = Ids({1, 2, 3});
  tensors["emb/rows"] = Values({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3);
  ASSERT_TRUE(WriteNpz(Path("a.npz"), tensors).ok());
  EXPECT_THAT(Refusal(Path("a.npz")), HasSubstr("each row has 3 values"));
  tensors.erase("emb/rows");
  ASSERT_TRUE(WriteNpz(Path("a.npz"), tensors).ok());
  EXPECT_THAT(Refusal(Path("a.npz")), HasSubstr("has no rows of table \"emb\""));
  WriteFile(Path("b.npz"), std::string("no archive"));
  EXPECT_THAT(Refusal(Path("b.npz")), HasSubstr("b.npz"));
  WriteFile(Path("b.safetensors"), std::string("no tensors"));
  EXPECT_THAT(Refusal(Path("b.safetensors")), HasSubstr("b.safetensors"));
}

}  // namespace
}  // namespace tandem::trainer
