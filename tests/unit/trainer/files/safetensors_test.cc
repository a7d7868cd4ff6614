#include "trainer/files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <random>

#include "absl/strings/match.h"
#include "common/os/files.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/files/sha256.h"

namespace tandem::trainer {
namespace {

using testing::HasSubstr;

class SafetensorsTest : public testing::Test {
 protected:
  Tensor Make(DType dtype, Shape shape, uint8_t first) {
    auto tensor = Tensor::Make({dtype, shape}, device_);
    CHECK(tensor.ok());
    auto* bytes = static_cast<uint8_t*>(tensor->data());
    for (size_t i = 0; i < tensor->bytes(); ++i) bytes[i] = static_cast<uint8_t>(first + i);
    return *tensor;
  }
  TensorMap AllTypes() {
    return {{"b.f32", Make(DType::kF32, {2, 3}, 1)},      {"a.f16", Make(DType::kF16, {3}, 2)},
            {"c.bf16", Make(DType::kBF16, {1, 1, 2}, 3)}, {"d.i32", Make(DType::kI32, {2}, 4)},
            {"e.i64", Make(DType::kI64, {}, 5)},          {"f.u8", Make(DType::kU8, {5}, 6)},
            {"g.empty", Make(DType::kF32, {0, 7}, 7)}};
  }
  // Returns the content of a file with this header and `data_bytes` bytes of data.
  static std::string File(const std::string& header, size_t data_bytes) {
    std::string out;
    for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i));
    return out + header + std::string(data_bytes, 'x');
  }
  StatusOr<Safetensors> Parse(const std::string& file) {
    return ParseSafetensors({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, "f",
                            device_);
  }

  CpuDevice device_;
  TempDir dir_;
};

TEST_F(SafetensorsTest, RoundTrip) {
  const TensorMap tensors = AllTypes();
  const StringMap metadata = {{"step", "7"}, {"text", "\xc3\xa4\"\n"}};
  ASSERT_TRUE(WriteSafetensors(dir_ / "x", tensors, metadata).ok());
  const auto back = ReadSafetensors(dir_ / "x", device_);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->metadata, metadata);
  ASSERT_EQ(back->tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor& other = back->tensors.at(name);
    EXPECT_EQ(other.desc(), tensor.desc()) << name;
    EXPECT_EQ(std::memcmp(other.data(), tensor.data(), tensor.bytes()), 0) << name;
  }
}

TEST_F(SafetensorsTest, BytesAreAsTheFormatSays) {
  ASSERT_TRUE(WriteSafetensors(dir_ / "x", {{"w", Make(DType::kU8, {3}, 'a')}}, {}).ok());
  const std::string header = R"({"w":{"data_offsets":[0,3],"dtype":"U8","shape":[3]}})";
  EXPECT_EQ(ReadFile(dir_ / "x"), File(header + std::string(56 - header.size(), ' '), 0) + "abc");
}

TEST_F(SafetensorsTest, EqualTensorsGiveEqualBytesAndHash) {
  const TensorMap tensors = AllTypes();
  ASSERT_TRUE(WriteSafetensors(dir_ / "x", tensors, {}).ok());
  ASSERT_TRUE(WriteSafetensors(dir_ / "y", AllTypes(), {}).ok());
  EXPECT_EQ(ReadFile(dir_ / "x"), ReadFile(dir_ / "y"));
  const auto hash = Sha256Params(tensors);
  EXPECT_EQ(*hash, *Sha256File(dir_ / "x"));
  TensorMap other = AllTypes();
  static_cast<uint8_t*>(other.at("f.u8").data())[4] ^= 1;
  EXPECT_NE(*hash, *Sha256Params(other));
  TensorMap renamed = AllTypes();
  renamed["z"] = renamed["f.u8"];
  renamed.erase("f.u8");
  EXPECT_NE(*hash, *Sha256Params(renamed));
}

TEST_F(SafetensorsTest, KnownSha256) {
  WriteFile(dir_ / "abc", std::string("abc"));  // the example of one block in FIPS 180-4
  EXPECT_EQ(*Sha256File(dir_ / "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256File(dir_ / "no").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(Sha256File(dir_.path()).ok());
}

TEST_F(SafetensorsTest, AcceptsWhatOthersWrite) {
  // Names and data may have any order, padding may be absent, and metadata may be empty.
  const auto file = Parse(File(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                               R"("__metadata__":{},)"
                               R"("a":{"dtype":"F16","shape":[],"data_offsets":[2,4]}})",
                               4));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors.size(), 2u);
  EXPECT_TRUE(Parse(File("{}", 0)).ok());
}

TEST_F(SafetensorsTest, Attacks) {
  const auto tensor = [](const char* dtype, const char* shape, const char* offsets) {
    return absl::StrFormat(R"({"dtype":"%s","shape":%s,"data_offsets":%s})", dtype, shape, offsets);
  };
  const std::string good = tensor("U8", "[4]", "[0,4]");
  std::string deep(100000, '[');
  std::string huge_length = File("{}", 0);
  huge_length[7] = '\x7f';
  std::string over_bound = File("{}", 0);
  over_bound[3] = '\x10';  // makes the length of the header 268 MB
  const struct {
    const char* what;
    std::string file, expected;
  } cases[] = {
      {"empty", "", "at least 8"},
      {"short", "1234567", "has 7 bytes"},
      {"huge header", huge_length, "at most 100000000 bytes are allowed"},
      {"header over the bound", over_bound, "at most 100000000 bytes are allowed"},
      {"header longer than the file", File("{}      ", 0).substr(0, 12), "truncated"},
      {"no JSON", File("hello", 0), "of the header is invalid JSON"},
      {"JSON cut", File(R"({"a":)" + good, 4), "of the header is invalid JSON"},
      {"text behind the JSON", File("{}x", 0), "of the header is invalid JSON"},
      {"bad UTF-8", File("{\"\xff\":" + good + "}", 4), "of the header is invalid JSON"},
      {"array", File("[]", 0), "is not a JSON object"},
      {"deep", File(deep, 0), "nested too deeply"},
      {"deep objects", File(R"({"a":{"a":{"a":{"a":{"a":1}}}}})", 0), "nested too deeply"},
      {"duplicate tensor", File(R"({"a":)" + good + R"(,"a":)" + good + "}", 4),
       "key \"a\" occurs twice"},
      {"duplicate field", File(R"({"a":{"dtype":"U8","dtype":"U8","shape":[4]}})", 4),
       "key \"dtype\" occurs twice"},
      {"overlap", File(R"({"a":)" + good + R"(,"b":)" + tensor("U8", "[4]", "[2,6]") + "}", 6),
       "tensor \"b\" is invalid: the data begin at byte 2, expected byte 4 (overlap)"},
      {"same place", File(R"({"a":)" + good + R"(,"b":)" + good + "}", 4), "overlap"},
      {"gap", File(R"({"a":)" + good + R"(,"b":)" + tensor("U8", "[2]", "[6,8]") + "}", 8),
       "expected byte 4 (gap)"},
      {"late begin", File(R"({"a":)" + tensor("U8", "[2]", "[1,3]") + "}", 3), "gap"},
      {"truncated data", File(R"({"a":)" + good + "}", 3),
       "has only 3 bytes of data; the file is truncated"},
      {"bytes left over", File(R"({"a":)" + good + "}", 5), "1 bytes follow the last tensor"},
      {"shape and offsets", File(R"({"a":)" + tensor("F32", "[2]", "[0,4]") + "}", 4),
       "contain 4 bytes, but f32[2] needs 8 bytes"},
      {"shape overflow",
       File(R"({"a":)" + tensor("F32", "[4294967296,4294967296]", "[0,0]") + "}", 0),
       "tensor \"a\""},
      {"huge offsets",
       File(R"({"a":)" + tensor("U8", "[4]", "[18446744073709551612,18446744073709551615]") + "}",
            4),
       "whole numbers"},
      {"negative offset", File(R"({"a":)" + tensor("U8", "[4]", "[-4,0]") + "}", 4),
       "whole numbers"},
      {"offsets turned round", File(R"({"a":)" + tensor("U8", "[4]", "[4,0]") + "}", 4),
       "begin <= end"},
      {"three offsets", File(R"({"a":)" + tensor("U8", "[4]", "[0,4,4]") + "}", 4), "[begin, end]"},
      {"negative dimension", File(R"({"a":)" + tensor("U8", "[-1]", "[0,4]") + "}", 4),
       "whole numbers"},
      {"broken dimension", File(R"({"a":)" + tensor("U8", "[4.0]", "[0,4]") + "}", 4),
       "whole numbers"},
      {"rank 9", File(R"({"a":)" + tensor("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") + "}", 1), "\"a\""},
      {"bad dtype", File(R"({"a":)" + tensor("C64", "[4]", "[0,4]") + "}", 4),
       "dtype \"C64\" is unknown"},
      {"no dtype", File(R"({"a":{"shape":[4],"data_offsets":[0,4]}})", 4), "expected dtype, shape"},
      {"extra field", File(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})", 4),
       "expected dtype, shape"},
      {"number for a tensor", File(R"({"a":3})", 0), "expected dtype, shape"},
      {"number as metadata", File(R"({"__metadata__":{"a":3}})", 0), "must be a string"},
      {"metadata not an object", File(R"({"__metadata__":[]})", 0), "must be an object"},
  };
  for (const auto& c : cases) {
    const auto parsed = Parse(c.file);
    EXPECT_EQ(parsed.status().code(), StatusCode::kDataLoss) << c.what << ": " << parsed.status();
    EXPECT_TRUE(absl::StartsWith(parsed.status().message(), "f")) << c.what;
    EXPECT_THAT(parsed.status().message(), HasSubstr(c.expected)) << c.what;
    WriteFile(dir_ / "file", c.file);  // the file with the same content is rejected, too
    EXPECT_EQ(ReadSafetensors(dir_ / "file", device_).status().code(), StatusCode::kDataLoss);
  }
}

// Two files that belong together are published together: after publishing, both files are new or
// both are old.
TEST_F(SafetensorsTest, FilesArePublishedTogether) {
  const auto publish = [&](const Status& second) {
    const auto write = [](const char* text, const Status& status) {
      return [text, status](const std::string& path) {
        WriteFile(path, std::string(text));
        return status;
      };
    };
    return PublishFiles(
        {{dir_ / "a", write("new a", OkStatus())}, {dir_ / "b", write("new b", second)}});
  };
  const auto content = [&](const char* name) { return *ReadSmallFile(dir_ / name, 100); };
  WriteFile(dir_ / "a", std::string("old a"));
  WriteFile(dir_ / "b", std::string("old b"));
  EXPECT_EQ(publish(ResourceExhausted("full")).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(content("a") + ", " + content("b"), "old a, old b");
  EXPECT_EQ(publish(OkStatus()), OkStatus());
  EXPECT_EQ(content("a") + ", " + content("b"), "new a, new b");
  const auto files = std::distance(std::filesystem::directory_iterator(dir_.path()), {});
  EXPECT_EQ(files, 2) << "drafts stay";
  // A link to a device is not a regular file. A draft file cannot replace such a file.
  std::filesystem::create_symlink("/dev/full", dir_ / "device");
  const auto full = [](const std::string& path) {
    FileWriter file;
    TD_RETURN_IF_ERROR(file.Open(path));
    return file.Write("text", 4);
  };
  EXPECT_EQ(PublishFiles({{dir_ / "device", full}}).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(std::filesystem::is_symlink(dir_ / "device"));
}

TEST_F(SafetensorsTest, WriterRefuses) {
  EXPECT_EQ(WriteSafetensors(dir_ / "x", {{"__metadata__", Make(DType::kU8, {1}, 0)}}, {}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteSafetensors(dir_ / "x", {{"a", Tensor()}}, {}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteSafetensors(dir_ / "x", {{"\xff", Make(DType::kU8, {1}, 0)}}, {}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteSafetensors(dir_ / "no/x", {}, {}).code(), StatusCode::kNotFound);
  if (std::filesystem::exists("/dev/full")) {
    EXPECT_EQ(WriteSafetensors("/dev/full", AllTypes(), {}).code(), StatusCode::kResourceExhausted);
  }
}

// For any bytes, the parser must return an error or tensors that fit their shapes.
TEST_F(SafetensorsTest, RandomMutationsNeverCrash) {
  const uint32_t seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  ASSERT_TRUE(WriteSafetensors(dir_ / "x", AllTypes(), {{"a", "b"}}).ok());
  const std::string good = ReadFile(dir_ / "x");
  const char interesting[] = "0123456789[]{}\",:-.eE\\ ";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = good;
    for (uint32_t n = random() % 3 + 1; n > 0; --n) {
      const size_t at = random() % 4 == 0 ? random() % 8 : random() % file.size();
      file[at] = random() % 2 == 0 ? interesting[random() % (sizeof(interesting) - 1)]
                                   : static_cast<char>(random());
    }
    if (random() % 8 == 0) file.resize(random() % (file.size() + 1));
    const auto parsed = Parse(file);
    accepted += parsed.ok();
    ASSERT_TRUE(parsed.ok() || parsed.status().code() == StatusCode::kDataLoss) << parsed.status();
  }
  EXPECT_GT(accepted, 0);  // mutations that change only the data are accepted
}

}  // namespace
}  // namespace tandem::trainer
