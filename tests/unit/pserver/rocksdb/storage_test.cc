#include "pserver/storage/storage.h"
#include "pserver/shard/checkpoint_calls.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <variant>

#include "gmock/gmock.h"
#include "proto/pserver.pb.h"
#include "pserver/disk/persistent_counter.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/rocksdb/store_meta.h"
#include "pserver/shard/durable_shard.h"
#include "tests/support/when_logged.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

class StorageTest : public ShardFixture {
 protected:
  StorageTest() : dir_(testing::TempDir() + "/storage_XXXXXX") {
    CHECK(mkdtemp(dir_.data()) != nullptr);
  }
  ~StorageTest() override { std::filesystem::remove_all(dir_); }

  ShardSnapshot Image(uint64_t pushes) {
    Make();
    Start(Config(1, UpdatePolicy::kSync, "adam"));
    for (uint64_t s = 0; s < pushes; ++s) {
      PushHead head = Head(Rank(0), s + 1, s, 0.1f);
      head.event_time_ms = 1'700'000'000'000 + static_cast<int64_t>(s);
      CHECK(Push(head, 0.5f).ok());
    }
    return *shard_->checkpoints().Take();
  }
  static bool SameBytes(const Buffer& a, const Buffer& b, int64_t numel) {
    return std::memcmp(a.get(), b.get(), static_cast<size_t>(numel) * sizeof(float)) == 0;
  }
  static bool Same(const ShardSnapshot& a, const ShardSnapshot& b) {
    if (a.version != b.version || a.event_time_ms != b.event_time_ms ||
        !Difference(a.config, b.config).empty() || a.slices.size() != b.slices.size() ||
        a.marks.size() != b.marks.size() ||
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

  // Returns the path of the only file of the directory whose name contains `part` and that is not
  // empty.
  std::string Only(const std::string& part) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      const std::string name = entry.path().filename();
      if (name.find(part) != std::string::npos && entry.file_size() > 0) {
        found.push_back(entry.path());
      }
    }
    CHECK_EQ(found.size(), 1u) << part;
    return found[0];
  }
  static std::string ReadFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {(std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()};
  }
  static void WriteFile(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static std::string Flipped(std::string bytes, size_t at) {
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    return bytes;
  }

  std::string dir_;
};

TEST_F(StorageTest, KeepsTheParametersBeforeTheLastUpdate) {
  ShardSnapshot image = Image(3);
  auto storage = OpenRocksdbStorage(dir_);
  ASSERT_TRUE(storage.ok()) << storage.status();
  ASSERT_TRUE((*storage)->Write(image).ok());
  EXPECT_FALSE((**(*storage)->Read()).has_previous);
  image.has_previous = true;
  for (SliceSnapshot& slice : image.slices) slice.previous = FloatBuffer({1, 2, 3, 4});
  ASSERT_TRUE((*storage)->Write(image).ok());
  const auto read = (*storage)->Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE((*read)->has_previous);
  for (const SliceSnapshot& slice : (*read)->slices) {
    EXPECT_TRUE(SameBytes(slice.previous, image.slices[0].previous, 4));
  }
  Make();
  ASSERT_TRUE(shard_->checkpoints().Restore(**read).ok());
  StatusOr<PullResult> before = Internal("not answered");
  shard_->Pull({.caller = Rank(0), .observer = true, .min_version = 2, .at_version = 2},
               clock_.Now(), [&](StatusOr<PullResult> result) { before = std::move(result); });
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(Values(*before), std::vector<float>({1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}));
  ASSERT_TRUE((*storage)->Write(Image(4)).ok());
  EXPECT_FALSE((**(*storage)->Read()).has_previous);
}

TEST_F(StorageTest, ReadsWhatWasWrittenLast) {
  const ShardSnapshot three = Image(3), five = Image(5);
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

TEST_F(StorageTest, WaitsForTheFolderOfAServerThatIsEnding) {
  auto held = OpenRocksdbStorage(dir_);
  ASSERT_TRUE(held.ok()) << held.status();
  const WhenLogged waits("is in use by another process", [&held] { held->reset(); });
  const auto storage = OpenRocksdbStorage(dir_);
  ASSERT_TRUE(storage.ok()) << storage.status();
  EXPECT_EQ(waits.times(), 1);
}

TEST_F(StorageTest, AFolderThatStaysInUseIsRefused) {
  const auto held = OpenRocksdbStorage(dir_);
  ASSERT_TRUE(held.ok()) << held.status();
  const Status status = OpenRocksdbStorage(dir_).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("find that process with fuser " + dir_ + "/LOCK"));
}

TEST_F(StorageTest, WithLittleRoomItIsReadAndNothingIsWritten) {
  const ShardSnapshot image = Image(2);
  { ASSERT_TRUE((*OpenRocksdbStorage(dir_))->Write(image).ok()); }
  const auto storage = OpenRocksdbStorage(dir_, nullptr, {.free_bytes_min = uint64_t{1} << 62});
  ASSERT_TRUE(storage.ok()) << storage.status();
  EXPECT_TRUE(Same(**(*storage)->Read(), image));
  const LogEntry entry{1, PushRecord()};
  for (const Status& status :
       {(*storage)->CheckRoom(0), (*storage)->AppendLog({&entry, 1}, false).status(),
        (*storage)->Write(image).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(" bytes are needed [TD2107]; nothing was written; hint: free space on the disk"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(dir_));
  }
}

TEST_F(StorageTest, WhatACheckpointDropsGivesItsRoomBack) {
  const auto storage = *OpenRocksdbStorage(dir_);
  const ShardSnapshot image = Image(1);
  ASSERT_TRUE(storage->Write(image).ok());
  LogEntry entry;
  PushRecord push{Head(Rank(0), 1, 0), {}};
  const int64_t elements = 1 << 20;
  push.head.slices = {{"w", 0, {DType::kF32, Shape{elements}}}};
  push.values = {FloatBuffer(std::vector<float>(static_cast<size_t>(elements), 1.0f))};
  entry.record = std::move(push);
  const auto log_bytes = [this] {
    uint64_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(dir_)) {
      if (file.path().filename().string().starts_with("log-")) bytes += file.file_size();
    }
    return bytes;
  };
  uint64_t most = 0;
  for (uint64_t n = image.log_number + 1; n <= image.log_number + 40; ++n) {
    entry.number = n;
    ASSERT_TRUE(storage->AppendLog({&entry, 1}, false).ok());
    most = std::max(most, log_bytes());
  }
  EXPECT_GT(most, uint64_t{64} << 20);
  ShardSnapshot later = image;
  later.log_number += 40;
  ASSERT_TRUE(storage->Write(later).ok());
  EXPECT_EQ(log_bytes(), 0u);
  EXPECT_TRUE(Same(**storage->Read(), later));
}

TEST_F(StorageTest, ARecordNamesNoFileOutsideOfItsFolder) {
  const std::string good = MakeMeta(Image(1)).SerializeAsString();
  for (const char* name : {"../other/values-1", "values-1/../../x", "values-01", "values-", ""}) {
    ShardMeta meta;
    ASSERT_TRUE(meta.ParseFromString(good));
    meta.set_values_file(name);
    const Status refused = ParseMeta("cut 3", meta.SerializeAsString()).status();
    EXPECT_EQ(refused.code(), StatusCode::kDataLoss) << name;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("expected values-NUMBER [TD2111]"));
    ShardMeta delta;
    ASSERT_TRUE(delta.ParseFromString(good));
    delta.set_values_file("values-2");
    *delta.mutable_base() = meta;
    EXPECT_EQ(ParseMeta("cut 3", delta.SerializeAsString()).status().code(), StatusCode::kDataLoss);
  }
}

TEST_F(StorageTest, ARecordThatCannotBeReadSaysWhatToDo) {
  EXPECT_THAT(std::string(ParseMeta("cut 3", "no record").status().message()),
              HasSubstr("cut 3 is damaged [TD2118]; hint: restore a copy"));
  ShardMeta meta = MakeMeta(Image(1));
  meta.set_format(9);
  const Status newer = ParseMeta("cut 3", meta.SerializeAsString()).status();
  EXPECT_EQ(newer.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(newer.message()), HasSubstr("cut 3 has format 9"));
  EXPECT_THAT(std::string(newer.message()), HasSubstr("[TD2119]; hint: start the version"));
}

TEST_F(StorageTest, AMissingAcknowledgedCheckpointIsNoticed) {
  { ASSERT_TRUE((*OpenRocksdbStorage(dir_))->Write(Image(2)).ok()); }
  const std::string copy = dir_ + "_old";
  std::filesystem::copy(dir_, copy);
  { ASSERT_TRUE((*OpenRocksdbStorage(dir_))->Write(Image(4)).ok()); }
  // Combines an older copy of the store with the newer file of the acknowledged version. The store
  // must reject this combination.
  std::filesystem::copy_file(dir_ + "/TANDEM_ACKNOWLEDGED", copy + "/TANDEM_ACKNOWLEDGED",
                             std::filesystem::copy_options::overwrite_existing);
  const auto read = (*OpenRocksdbStorage(copy))->Read();
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(read.status().message()),
      HasSubstr("newest checkpoint has version 2, but version 4 was acknowledged [TD4010]"));
  std::filesystem::remove_all(copy);
}

TEST_F(StorageTest, APowerFailureBeforeTheFirstNumberLeavesAnEmptyFile) {
  const std::string path = dir_ + "_number";
  std::ofstream(path).close();
  PersistentCounter file(path);
  EXPECT_EQ(*file.Read(), 0u);
  ASSERT_TRUE(file.Note(7).ok());
  EXPECT_EQ(*file.Read(), 7u);
  std::filesystem::resize_file(path, 5);
  const Status partial = file.Read().status();
  EXPECT_EQ(partial.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(partial.message()), HasSubstr("is truncated [TD2118]"));
  std::filesystem::remove(path);
}

TEST_F(StorageTest, NoFlippedByteOfTheValuesIsLoaded) {
  const ShardSnapshot image = Image(2);
  const auto storage = *OpenRocksdbStorage(dir_);
  ASSERT_TRUE(storage->Write(image).ok());
  const std::string path = Only("values-");
  const std::string good = ReadFile(path);
  ASSERT_GT(good.size(), 100u);
  const auto refused = [&](const std::string& bytes) {
    WriteFile(path, bytes);
    const Status status = storage->Read().status();
    return status.code() == StatusCode::kDataLoss &&
           std::string(status.message()).find(path) != std::string::npos;
  };
  for (size_t at = 0; at < good.size(); ++at) {
    EXPECT_TRUE(refused(Flipped(good, at))) << "byte " << at;
    EXPECT_TRUE(refused(good.substr(0, at))) << "ends behind " << at;
  }
  EXPECT_TRUE(refused(good + "x"));
  WriteFile(path, good);
  EXPECT_TRUE(Same(**storage->Read(), image));
  std::filesystem::remove(path);
  EXPECT_THAT(std::string(storage->Read().status().message()), HasSubstr(path + " is missing"));
}

// The damage is at the end of the file, so most of the file is loaded before the damage is found.
// The values that the shard serves must not change.
TEST_F(StorageTest, WhatIsServedStaysWhereACheckpointIsDamaged) {
  const auto storage = *OpenRocksdbStorage(dir_);
  DurableShard durable({}, storage.get(), clock_, backend_, device_, metrics_);
  shard_ = std::make_unique<Shard>(Shard::Options(), clock_, backend_, device_, metrics_);
  Start(Config(1, UpdatePolicy::kASync));
  ASSERT_TRUE(durable.shard().checkpoints().Restore(*shard_->checkpoints().Take()).ok());
  ASSERT_TRUE(durable.Save().ok());
  const auto push = [&](uint64_t n) {
    const PushHead head = Head(Rank(0), n, n - 1);
    StatusOr<PushTicket> ticket = durable.shard().AdmitPush(head);
    CHECK(ticket.ok()) << ticket.status();
    for (PushBytes& buffer : ticket->buffers) {
      std::fill_n(reinterpret_cast<float*>(buffer.mutable_data()), 4, 1.0f);
    }
    return durable.shard().Push(head, *std::move(ticket)).status();
  };
  const auto values = [&] {
    const ShardSnapshot image = *durable.shard().checkpoints().Take();
    std::vector<float> all;
    for (const SliceSnapshot& slice : image.slices) {
      const auto some = Floats(slice.param, 4);
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  };
  ASSERT_TRUE(push(1).ok());
  const std::vector<float> served = values();
  const std::string path = Only("values-");
  const std::string good = ReadFile(path);
  WriteFile(path, Flipped(good, good.size() - 1));
  EXPECT_EQ(durable.Restore().status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(values(), served);
  EXPECT_EQ(durable.shard().Info().version, 1u);
  DurableShard started({}, storage.get(), clock_, backend_, device_, metrics_);
  EXPECT_EQ(started.Recover().status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(started.shard().Info().configured);
  WriteFile(path, good);
  EXPECT_EQ(*durable.Restore(), 0u);
  EXPECT_NE(values(), served);
  EXPECT_EQ(*started.Recover(), 0u);
  EXPECT_TRUE(started.shard().Info().initialised);
}

// Replaces the file of values by the file of another checkpoint. The record of the checkpoint does
// not match this file.
TEST_F(StorageTest, ValuesOfAnotherCheckpointAreRefused) {
  const auto storage = *OpenRocksdbStorage(dir_);
  ASSERT_TRUE(storage->Write(Image(2)).ok());
  const std::string two = ReadFile(Only("values-"));
  ASSERT_TRUE(storage->Write(Image(3)).ok());
  WriteFile(Only("values-"), two);
  EXPECT_THAT(std::string(storage->Read().status().message()), HasSubstr("checkpoint says"));
}

TEST_F(StorageTest, FilesOfCheckpointsThatWereNeverWholeGo) {
  WriteFile(dir_ + "/values-7", "half of it");
  const ShardSnapshot image = Image(2);
  const auto storage = *OpenRocksdbStorage(dir_);
  ASSERT_TRUE(storage->Write(image).ok());
  EXPECT_EQ(Only("values-"), dir_ + "/values-8");
  EXPECT_TRUE(Same(**storage->Read(), image));
}

// Flips each byte of each file in the directory of a server with a log, one byte at a time. The
// server must not load a flipped byte.
TEST_F(StorageTest, NoFlippedByteOfTheLogIsLoaded) {
  constexpr uint64_t kEntries = 3;
  const ShardSnapshot image = Image(2);
  {
    const auto storage = *OpenRocksdbStorage(dir_);
    ASSERT_TRUE(storage->Write(image).ok());
    std::vector<LogEntry> entries(kEntries);
    for (uint64_t n = 1; n <= kEntries; ++n) {
      PushHead head = Head(Rank(0), n + 2, n + 1);
      head.slices.resize(1);
      entries[n - 1].number = n;
      entries[n - 1].record = PushRecord{head, {FloatBuffer({static_cast<float>(n), 2, 3, 4})}};
    }
    for (LogEntry& entry : entries) ASSERT_TRUE(storage->AppendLog({&entry, 1}, true).ok());
  }
  const std::string copy = dir_ + "_bad";
  const auto loads_all = [&]() -> StatusOr<bool> {
    TD_ASSIGN_OR_RETURN(const auto storage, OpenRocksdbStorage(copy));
    TD_ASSIGN_OR_RETURN(const auto read, storage->Read());
    float sum = 0;
    TD_RETURN_IF_ERROR(storage->ReadLog(0, [&](const LogEntry& entry) {
      sum += reinterpret_cast<const float*>(std::get<PushRecord>(entry.record).values[0].get())[0];
      return OkStatus();
    }));
    return read.has_value() && Same(*read, image) && sum == 6;
  };
  int refused = 0;
  const std::string entries_file = Only("log-");
  for (const std::string& name : {entries_file, Only(".log"), dir_ + "/TANDEM_LOG_SYNCED"}) {
    const std::string good = ReadFile(name);
    const std::string bad = copy + name.substr(dir_.size());
    for (size_t at = 0; at < good.size(); ++at) {
      std::filesystem::remove_all(copy);
      std::filesystem::copy(dir_, copy);
      WriteFile(bad, Flipped(good, at));
      const StatusOr<bool> loaded = loads_all();
      EXPECT_TRUE(!loaded.ok() || *loaded) << "byte " << at << " of " << name << " loaded silently";
      EXPECT_TRUE(!loaded.ok() || name != entries_file) << "byte " << at << " of " << name;
      refused += !loaded.ok();
    }
  }
  std::filesystem::remove_all(copy);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace tandem::pserver
