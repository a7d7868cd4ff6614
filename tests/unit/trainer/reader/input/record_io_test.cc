#include "trainer/reader/input/record_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "tests/unit/trainer/test_files.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Read {
  std::vector<std::string> records, errors;
  bool lost = false;
};

Read ReadAll(const std::string& path) {
  Read out;
  auto scanner = RecordScanner::Open(path);
  if (!scanner.ok()) {
    out.errors.emplace_back(scanner.status().message());
    return out;
  }
  const std::string file = trainer::ReadFile(path);
  for (;;) {
    const auto frame = (*scanner)->Next();
    if (!frame.ok()) {
      out.errors.emplace_back(frame.status().message());
      EXPECT_LT(out.errors.size(), 10000u);
    } else if (!frame->has_value()) {
      out.lost = (*scanner)->lost();
      return out;
    } else {
      const auto [bytes, offset] = **frame;
      EXPECT_EQ(file.substr(offset, bytes.size()), bytes);
      out.records.emplace_back(bytes);
    }
  }
}

class RecordIoTest : public testing::TestWithParam<RecordFormat> {
 protected:
  std::string Write(const std::string& name, const std::vector<std::string>& records) {
    auto writer = RecordWriter::Create(dir_ / name, GetParam());
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const std::string& record : records) EXPECT_EQ((*writer)->Add(record), OkStatus());
    EXPECT_EQ((*writer)->Finish(), OkStatus());
    return dir_ / name;
  }
  bool tf() const { return GetParam() == RecordFormat::kTfRecord; }

  TempDir dir_;
};

INSTANTIATE_TEST_SUITE_P(Formats, RecordIoTest,
                         testing::Values(RecordFormat::kTfRecord, RecordFormat::kRecordIo),
                         [](const auto& format) { return std::string(Name(format.param)); });

TEST_P(RecordIoTest, WhatIsWrittenIsRead) {
  std::vector<std::string> records = {"", "a", std::string(3 << 20, 'x'), "\0b"};
  for (int i = 0; i < 3000; ++i)
    records.push_back(std::string(static_cast<size_t>(i * 37 % 1500), 'r'));
  const std::string path = Write("file", records);
  const Read read = ReadAll(path);
  EXPECT_EQ(read.records, records);
  EXPECT_THAT(read.errors, IsEmpty());
  EXPECT_EQ((*RecordScanner::Open(path))->format(), GetParam());
  EXPECT_EQ(RecordWriter::Create(path, GetParam()).status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(ReadAll(Write("none", {})).records, IsEmpty());
}

// The reader must detect every flipped byte. Every record that it returns must be a record that was
// written.
TEST_P(RecordIoTest, EveryFlippedByteIsNoticed) {
  const std::vector<std::string> records = {"first record", "second", "third one"};
  const std::string whole = trainer::ReadFile(Write("file", records));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x20);
    trainer::WriteFile(dir_ / "flipped", bytes);
    const Read read = ReadAll(dir_ / "flipped");
    // The number of records in the header of a chunk has no checksum. Nevertheless the reader must
    // detect missing or additional records.
    EXPECT_FALSE(read.errors.empty()) << "byte " << i;
    for (const std::string& record : read.records) {
      EXPECT_THAT(records, testing::Contains(record)) << "byte " << i;
    }
  }
}

TEST_P(RecordIoTest, EveryTruncationIsNoticed) {
  const std::vector<std::string> records = {"first record", "second", "third one"};
  const std::string whole = trainer::ReadFile(Write("file", records));
  int silent = 0;
  for (size_t size = 1; size < whole.size(); ++size) {
    trainer::WriteFile(dir_ / "cut", whole.substr(0, size));
    silent += ReadAll(dir_ / "cut").errors.empty() ? 1 : 0;
  }
  // A tfrecord file truncated between two records is a valid shorter file.
  EXPECT_EQ(silent, tf() ? 2 : 0);
}

TEST_P(RecordIoTest, RecordsBehindADamagedOneAreRead) {
  std::vector<std::string> records;
  for (int i = 0; i < 2500; ++i) records.push_back("record " + std::to_string(i));
  std::string bytes = trainer::ReadFile(Write("file", records));
  bytes[bytes.find("record 1500")] = 'X';
  trainer::WriteFile(dir_ / "damaged", bytes);
  const Read read = ReadAll(dir_ / "damaged");
  ASSERT_EQ(read.errors.size(), 1u);
  EXPECT_FALSE(read.lost);
  if (tf()) {
    EXPECT_EQ(read.records.size(), 2499u);
    EXPECT_THAT(read.errors[0], HasSubstr("the checksum of a record is wrong"));
  } else {
    EXPECT_EQ(read.records.size(), 1500u);
    EXPECT_THAT(read.errors[0], HasSubstr("the checksum of a chunk of 1000 records is wrong"));
  }
  EXPECT_EQ(read.records.back(), "record 2499");
  EXPECT_THAT(read.errors[0], HasSubstr("damaged: offset "));
}

// The file has the bytes that TensorFlow 2's TFRecordWriter writes for the records "abc" and "".
TEST(TfRecord, IsTensorFlows) {
  const TempDir dir;
  auto writer = RecordWriter::Create(dir / "file", RecordFormat::kTfRecord);
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ((*writer)->Add("abc"), OkStatus());
  ASSERT_EQ((*writer)->Finish(), OkStatus());
  const std::string bytes = trainer::ReadFile(dir / "file");
  ASSERT_EQ(bytes.size(), 19u);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(12, 3), "abc");
}

// The file claims a huge record and is mostly a hole. The reader must not allocate memory for the
// record.
TEST(TfRecord, ARecordTooLargeToBeOneIsPassedOver) {
  const TempDir dir;
  auto writer = RecordWriter::Create(dir / "file", RecordFormat::kTfRecord);
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ((*writer)->Add("abc"), OkStatus());
  ASSERT_EQ((*writer)->Finish(), OkStatus());
  const std::string small = trainer::ReadFile(dir / "file");
  const uint64_t size = uint64_t{3} << 30;
  std::string head(reinterpret_cast<const char*>(&size), sizeof(size));
  const uint32_t crc = Crc32c(0, head.data(), head.size());
  const uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  head.append(reinterpret_cast<const char*>(&masked), sizeof(masked));
  trainer::WriteFile(dir / "large", head);
  std::filesystem::resize_file(dir / "large", head.size() + size + 4);
  std::ofstream(dir / "large", std::ios::binary | std::ios::app) << small;
  const auto scanner = RecordScanner::Open(dir / "large");
  ASSERT_TRUE(scanner.ok()) << scanner.status();
  EXPECT_EQ(std::string((*scanner)->Next().status().message()),
            dir /
                "large: offset 0: a record has 3221225472 bytes, but at most 2147483647 bytes are "
                "supported");
  const auto next = (*scanner)->Next();
  ASSERT_TRUE(next.ok() && next->has_value()) << next.status();
  EXPECT_EQ((*next)->bytes, "abc");
  EXPECT_FALSE((*(*scanner)->Next()).has_value());
}

TEST(RecordIo, CompressedChunksAreRefusedByName) {
  const TempDir dir;
  auto writer = RecordWriter::Create(dir / "file", RecordFormat::kRecordIo);
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ((*writer)->Add("abc"), OkStatus());
  ASSERT_EQ((*writer)->Finish(), OkStatus());
  std::string bytes = trainer::ReadFile(dir / "file");
  bytes[12] = 1;
  trainer::WriteFile(dir / "snappy", bytes);
  EXPECT_THAT(ReadAll(dir / "snappy").errors,
              ElementsAre(HasSubstr("offset 0: a chunk of 1 records is compressed (snappy)")));
}

TEST(RecordIo, OtherFilesAreRefused) {
  const TempDir dir;
  trainer::WriteFile(dir / "text", std::string("label,I1,I2\n1,2,3\n"));
  EXPECT_THAT(ReadAll(dir / "text").errors,
              ElementsAre(HasSubstr("the file is neither a tfrecord nor a recordio file")));
  EXPECT_EQ(RecordScanner::Open(dir / "nothing").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem::reader
