// Tests a store whose log an earlier version wrote, in RocksDB.
#include "pserver/rocksdb/old_log.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/rocksdb/store_keys.h"
#include "pserver/rocksdb/store_log.h"
#include "pserver/rocksdb/store_reader.h"
#include "pserver/rocksdb/store_room.h"
#include "pserver/rocksdb/store_writer.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/wire/log_record.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class OldLogTest : public ShardFixture {
 protected:
  OldLogTest() : dir_(temp_.path()) {}

  static LogEntry Entry(uint64_t number) {
    PushRecord push{Head({"job", 0, 7}, number, number - 1), {}};
    push.head.slices.resize(1);
    push.values = {FloatBuffer({static_cast<float>(number), 2, 3, 4})};
    return {number, std::move(push)};
  }
  static std::string Bytes(const LogEntry& entry) {
    const codec::EncodedMessage message = EncodeLogEntry(entry);
    std::string bytes;
    for (const codec::EncodedMessage::Piece& p : message.pieces) {
      bytes += p.data != nullptr ? std::string(static_cast<const char*>(p.data), p.bytes) : p.owned;
    }
    return bytes;
  }
  ShardSnapshot Image(uint64_t log_number) {
    Make();
    Start(Config(1, UpdatePolicy::kSync));
    ShardSnapshot image = *shard_->checkpoints().Take();
    image.log_number = log_number;
    return image;
  }
  std::unique_ptr<rocksdb::DB> Database() const {
    rocksdb::DB* db = nullptr;
    const rocksdb::Status opened = rocksdb::DB::Open({}, dir_, &db);
    CHECK(opened.ok()) << opened.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }
  // Makes the directory one of an earlier version: a checkpoint with the entries up to 2, and the
  // entries 1 to 5 with their times.
  void MakeOld() {
    ASSERT_TRUE((*OpenRocksdbStorage(dir_))->Write(Image(2)).ok());
    const auto db = Database();
    ASSERT_TRUE(
        db->DeleteRange({}, db->DefaultColumnFamily(), keys::kLogBegin, keys::kLogEnd).ok());
    ASSERT_TRUE(db->Delete({}, keys::kLogFirst).ok());
    for (uint64_t n = 1; n <= 5; ++n) {
      ASSERT_TRUE(db->Put({}, keys::Log(n), Bytes(Entry(n))).ok());
    }
    ASSERT_TRUE(db->Put({}, keys::Numbered(keys::kMarkBegin, 1), "1000 0").ok());
    ASSERT_TRUE(db->Put({}, keys::Numbered(keys::kMarkBegin, 4), "2000 9").ok());
  }
  static std::vector<uint64_t> After(Storage& storage, uint64_t number) {
    std::vector<uint64_t> numbers;
    const Status read = storage.ReadLog(number, [&](const LogEntry& entry) {
      numbers.push_back(entry.number);
      return OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    return numbers;
  }

  const TempDir temp_;
  const std::string dir_;
};

TEST_F(OldLogTest, ItsEntriesMoveToFiles) {
  MakeOld();
  EXPECT_THAT(std::string(StoreReader::Open(dir_).status().message()),
              HasSubstr("an earlier version wrote the update log of " + dir_ + " [TD2119]"));
  for (const bool again : {false, true}) {
    const auto storage = OpenRocksdbStorage(dir_, nullptr, {.log_keep_bytes = 1 << 20});
    ASSERT_TRUE(storage.ok()) << storage.status();
    EXPECT_THAT(After(**storage, 2), ElementsAre(3, 4, 5));
    std::vector<int64_t> times;
    ASSERT_TRUE((*storage)
                    ->ScanLog(1,
                              [&](const ScannedEntry& entry) {
                                EXPECT_EQ(Bytes(entry.entry), Bytes(Entry(entry.entry.number)));
                                times.push_back(entry.time_us);
                                return OkStatus();
                              })
                    .ok());
    EXPECT_THAT(times, ElementsAre(1000, 1000, 1000, 2000, 2000)) << again;
  }
  const auto storage = *OpenRocksdbStorage(dir_);
  const LogEntry next = Entry(6);
  ASSERT_TRUE(storage->AppendLog({&next, 1}, true).ok());
  EXPECT_THAT(After(*storage, 4), ElementsAre(5, 6));
  EXPECT_EQ((*StoreReader::Open(dir_))->last_entry(), 6u);
}

// A process that is killed while it copies the entries leaves them in RocksDB.
TEST_F(OldLogTest, AnUnfinishedMoveIsRepeated) {
  MakeOld();
  {
    LogFiles files(dir_, 1 << 20);
    ASSERT_TRUE(files.Open(1).ok());
    const std::string damaged = "an entry of the killed process";
    const LogPayload payload{3, {damaged}};
    ASSERT_TRUE(files.Append({&payload, 1}, 1, false).ok());
  }
  for (int start = 0; start < 2; ++start) {
    EXPECT_THAT(After(**OpenRocksdbStorage(dir_), 2), ElementsAre(3, 4, 5));
  }
}

TEST_F(OldLogTest, WithoutRoomNothingMoves) {
  MakeOld();
  const auto db = Database();
  StoreWriter writer;
  writer.Open(db.get());
  const Status full = StoreLog(dir_, 0).Open(*db, writer, 2, kStoreBytesMin);
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("cannot move the update log of " + dir_));
  EXPECT_EQ(FindOldLog(*db, dir_)->entries, 5u);
  StoreLog log(dir_, 0);
  EXPECT_TRUE(log.Open(*db, writer, 2, 2 * kStoreBytesMin).ok());
  EXPECT_EQ(FindOldLog(*db, dir_)->entries, 0u);
}

// An earlier version reads the entry after the checkpoint from RocksDB.
TEST_F(OldLogTest, AnEarlierVersionRefusesTheStore) {
  for (const bool moved : {false, true}) {
    if (moved) MakeOld();
    {
      const auto storage = *OpenRocksdbStorage(dir_);
      EXPECT_TRUE(moved || storage->Write(Image(2)).ok());
    }
    const auto db = Database();
    std::string value;
    ASSERT_TRUE(db->Get({}, keys::Log(3), &value).ok()) << moved;
    const Status refused = DecodeLogEntry(3, value).status();
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("because a newer version wrote it [TD2119]; hint: start the newer"));
    EXPECT_TRUE(FindOldLog(*db, dir_)->marked);
    EXPECT_EQ(FindOldLog(*db, dir_)->entries, 0u);
  }
}

}  // namespace
}  // namespace tandem::pserver
