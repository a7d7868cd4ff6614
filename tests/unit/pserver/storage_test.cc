#include "pserver/storage.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "tests/unit/pserver/shard_fixture.h"

namespace tandem {
namespace {

using testing::HasSubstr;

class StorageTest : public ShardFixture {
 protected:
  StorageTest() : dir_(testing::TempDir() + "/storage_XXXXXX") {
    CHECK(mkdtemp(dir_.data()) != nullptr);
  }
  ~StorageTest() override { std::filesystem::remove_all(dir_); }

  ShardImage Image(uint64_t pushes) {
    Make();
    Start(Config(1, ShardMode::kSync, "adam"));
    for (uint64_t s = 0; s < pushes; ++s) CHECK(Push(Head(Rank(0), s + 1, s, 0.1f), 0.5f).ok());
    return *shard_->Image();
  }
  static bool SameBytes(const Buffer& a, const Buffer& b, int64_t numel) {
    return std::memcmp(a.get(), b.get(), static_cast<size_t>(numel) * sizeof(float)) == 0;
  }
  static bool Same(const ShardImage& a, const ShardImage& b) {
    if (a.version != b.version || !Difference(a.config, b.config).empty() ||
        a.slices.size() != b.slices.size() || a.marks.size() != b.marks.size() ||
        a.marks[0].applied.highest() != b.marks[0].applied.highest() ||
        a.marks[0].applied.words() != b.marks[0].applied.words()) {
      return false;
    }
    for (size_t i = 0; i < a.slices.size(); ++i) {
      const int64_t numel = a.config.slices[i].numel;
      if (!SameBytes(a.slices[i].param, b.slices[i].param, numel)) return false;
      if (a.slices[i].slots.size() != b.slices[i].slots.size()) return false;
      for (size_t j = 0; j < a.slices[i].slots.size(); ++j) {
        const auto &s = a.slices[i].slots[j], &t = b.slices[i].slots[j];
        if (s.name != t.name || s.numel != t.numel) return false;
        if (!SameBytes(s.values, t.values, s.numel)) return false;
      }
    }
    return true;
  }

  std::string dir_;
};

TEST_F(StorageTest, ReadsWhatWasWrittenLast) {
  const ShardImage three = Image(3), five = Image(5);
  {
    auto storage = OpenRocksdbStorage(dir_);
    ASSERT_TRUE(storage.ok()) << storage.status();
    EXPECT_FALSE((*(*storage)->Read()).has_value());
    ASSERT_TRUE((*storage)->Write(three).ok());
    EXPECT_EQ(*(*storage)->Write(five), five.bytes());
  }
  auto storage = OpenRocksdbStorage(dir_);
  ASSERT_TRUE(storage.ok()) << storage.status();
  const auto read = (*storage)->Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->has_value());
  EXPECT_TRUE(Same(**read, five));
  EXPECT_FALSE(Same(**read, three));
}

TEST_F(StorageTest, TheFreeSpaceFloorRefuses) {
  const Status status = OpenRocksdbStorage(dir_, uint64_t{1} << 62).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing was written"));
}

TEST_F(StorageTest, AMissingAcknowledgedCheckpointIsNoticed) {
  { ASSERT_TRUE((*OpenRocksdbStorage(dir_))->Write(Image(2)).ok()); }
  const std::string copy = dir_ + "_old";
  std::filesystem::copy(dir_, copy);
  { ASSERT_TRUE((*OpenRocksdbStorage(dir_))->Write(Image(4)).ok()); }
  // An older store comes back under a newer acknowledgement.
  std::filesystem::copy_file(dir_ + "/TANDEM_ACKNOWLEDGED", copy + "/TANDEM_ACKNOWLEDGED",
                             std::filesystem::copy_options::overwrite_existing);
  const auto read = (*OpenRocksdbStorage(copy))->Read();
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr("newest checkpoint is of version 2, but 4 was acknowledged"));
  std::filesystem::remove_all(copy);
}

TEST_F(StorageTest, NoFlippedByteOfTheLogIsLoaded) {
  const ShardImage image = Image(2);
  { ASSERT_TRUE((*OpenRocksdbStorage(dir_))->Write(image).ok()); }
  std::string log;
  for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
    if (entry.path().extension() == ".log" && entry.file_size() > 0) log = entry.path().filename();
  }
  ASSERT_FALSE(log.empty());
  std::ifstream file(dir_ + "/" + log, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  int refused = 0;
  const std::string copy = dir_ + "_bad";
  const size_t stride = std::max<size_t>(1, good.size() / 40);
  for (size_t at = 0; at < good.size(); at += stride) {
    std::filesystem::remove_all(copy);
    std::filesystem::copy(dir_, copy);
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    std::ofstream(copy + "/" + log, std::ios::binary) << bad;
    auto storage = OpenRocksdbStorage(copy);
    if (!storage.ok()) {
      ++refused;
      continue;
    }
    const auto read = (*storage)->Read();
    if (!read.ok()) {
      ++refused;
      continue;
    }
    EXPECT_TRUE(read->has_value() && Same(**read, image)) << "byte " << at << " loaded silently";
  }
  EXPECT_GT(refused, 30);
  std::filesystem::remove_all(copy);
}

}  // namespace
}  // namespace tandem
