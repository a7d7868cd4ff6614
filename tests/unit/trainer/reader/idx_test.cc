#include "trainer/reader/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "tests/unit/trainer/test_files.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

const Bytes kPixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

Bytes Cut(Bytes bytes, size_t size) {
  bytes.resize(size);
  return bytes;
}

Bytes With(Bytes bytes, size_t at, uint8_t value) {
  bytes.at(at) = value;
  return bytes;
}

Bytes Joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Idx, ReadsPlainAndGzip) {
  const Bytes plain = trainer::Idx({2, 2, 3}, kPixels);
  for (const Bytes& file : {plain, trainer::Gzip(plain)}) {
    const auto array = ParseIdx(file, "f", 3);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_THAT(array->dims, ElementsAre(2, 2, 3));
    EXPECT_EQ(array->data, kPixels);
  }
}

TEST(Idx, ReadsGzipOfSeveralMembers) {
  const Bytes plain = trainer::Idx({2, 2, 3}, kPixels);
  const Bytes head(plain.begin(), plain.begin() + 9), tail(plain.begin() + 9, plain.end());
  const auto array = ParseIdx(Joined(trainer::Gzip(head), trainer::Gzip(tail)), "f", 3);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->data, kPixels);
}

TEST(Idx, NamesFileAndOffsetOfWhatIsWrong) {
  const Bytes plain = trainer::Idx({2, 2, 3}, kPixels), gz = trainer::Gzip(plain);
  Bytes swapped = plain;
  std::reverse(swapped.begin(), swapped.begin() + 4);
  const struct {
    const char* what;
    Bytes file;
    std::vector<const char*> expected;
  } cases[] = {
      {"labels for images",
       trainer::Idx({12}, kPixels),
       {"img.idx: offset 0: the file begins with 0x00000801, expected 0x00000803 (idx, unsigned "
        "byte, 3 dimensions)",
        "labels"}},
      {"byte order",
       swapped,
       {"begins with 0x03080000", "the byte order is wrong, because idx files are big-endian"}},
      {"text", Bytes{'h', 'e', 'l', 'l', 'o', '.', '.'}, {"0x68656c6c", "not an idx file"}},
      {"float elements", With(plain, 2, 0x0d), {"begins with 0x00000d03"}},
      {"compressed twice", trainer::Gzip(gz), {"begins with 0x1f8b", "compressed twice"}},
      {"empty", {}, {"offset 0", "truncated"}},
      {"cut magic", Cut(plain, 3), {"offset 3", "expected 16 bytes"}},
      {"cut header", Cut(plain, 11), {"offset 11", "expected 16 bytes"}},
      {"cut data", Cut(plain, 20), {"offset 20", "expected 28 bytes", "truncated"}},
      {"longer", Joined(plain, {0}), {"offset 28: 1 bytes follow"}},
      {"huge", With(With(plain, 4, 0xff), 8, 0xff), {"the header is damaged"}},
      {"cut gzip", Cut(gz, gz.size() - 12), {"the gzip data are truncated", "truncated"}},
      {"gzip without its checksum", Cut(gz, gz.size() - 3), {"truncated"}},
      {"gzip with a wrong checksum",
       With(gz, gz.size() - 8, gz[gz.size() - 8] ^ 1),
       {"the gzip data are damaged", "data check"}},
      {"gzip header alone", Cut(gz, 2), {"offset 2", "truncated"}},
      {"bytes behind the gzip data", Joined(gz, {1, 2, 3}), {"3 bytes follow"}},
      {"gzip of a cut file",
       trainer::Gzip(Cut(plain, 20)),
       {"offset 20: the unpacked file is truncated, expected 28 bytes"}},
      {"gzip of a longer file",
       trainer::Gzip(Joined(plain, {7})),
       {"offset 28 of the unpacked file"}},
  };
  for (const auto& c : cases) {
    const auto array = ParseIdx(c.file, "img.idx", 3);
    EXPECT_EQ(array.status().code(), StatusCode::kDataLoss) << c.what;
    EXPECT_THAT(array.status().message(), HasSubstr("img.idx: offset")) << c.what;
    for (const char* text : c.expected) {
      EXPECT_THAT(array.status().message(), HasSubstr(text)) << c.what;
    }
  }
}

TEST(Idx, ClaimedSizeTakesNoMemory) {
  // The header claims 3.9 GiB, but the file has only a few bytes.
  const Bytes claim = trainer::Idx({0xf0000000u, 1, 1}, {1, 2, 3});
  EXPECT_EQ(ParseIdx(claim, "f", 3).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseIdx(trainer::Gzip(claim), "f", 3).status().code(), StatusCode::kDataLoss);
}

TEST(Idx, ReadSaysWhyAFileCannotBeRead) {
  TempDir dir;
  EXPECT_EQ(ReadIdx(dir / "no", 3).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ReadIdx(dir.path(), 3).ok());  // the path of a directory
  trainer::WriteFile(dir / "yes", trainer::Gzip(trainer::Idx({2, 2, 3}, kPixels)));
  EXPECT_TRUE(ReadIdx(dir / "yes", 3).ok());
}

// For any bytes, the result must be an array that fits its header, or DATA_LOSS.
TEST(Idx, RandomMutationsNeverCrash) {
  const uint32_t seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  const Bytes plain = trainer::Idx({2, 2, 3}, kPixels), gz = trainer::Gzip(plain);
  for (int round = 0; round < 20000; ++round) {
    Bytes file = round % 2 == 0 ? plain : gz;
    for (uint32_t n = random() % 4 + 1; n > 0; --n) {
      file[random() % file.size()] = static_cast<uint8_t>(random());
    }
    if (random() % 4 == 0) file.resize(random() % (file.size() + 1));
    if (random() % 8 == 0) file.push_back(static_cast<uint8_t>(random()));
    const auto array = ParseIdx(file, "f", 3);
    if (!array.ok()) {
      ASSERT_EQ(array.status().code(), StatusCode::kDataLoss) << "seed " << seed;
      continue;
    }
    const uint64_t n = uint64_t{array->dims[0]} * array->dims[1] * array->dims[2];
    ASSERT_EQ(n, array->data.size()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tandem::reader
