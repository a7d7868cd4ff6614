// Tests the checkpoint store when system calls fail. The fsync and fdatasync of this program
// replace those of the C library, also in RocksDB.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "gmock/gmock.h"
#include "pserver/rocksdb/cold_store.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/shard/durable_shard.h"
#include "pserver/storage/storage.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace {

std::atomic<int> g_failures{0};  // number of next file syncs that fail
std::atomic<int> g_full{0};      // number of next writes to files of the log that find no room
std::mutex g_mu;
std::set<std::string> g_synced;  // paths of all synced directories and files

int Sync(long call, int fd) {
  if (g_failures > 0 && g_failures-- > 0) {
    errno = EIO;
    return -1;
  }
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  const std::lock_guard<std::mutex> lock(g_mu);
  g_synced.insert(path.string());
  return static_cast<int>(syscall(call, fd));
}

bool HasNoRoom(int fd) {
  if (g_full <= 0) return false;
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  return path.filename().string().starts_with("log-") && g_full-- > 0;
}

}  // namespace

// The first write that finds no room writes all parts but the last one.
extern "C" __attribute__((visibility("default"))) ssize_t writev(int fd, const iovec* parts,
                                                                 int count) {
  const bool full = HasNoRoom(fd);
  if (full && count > 1) return syscall(SYS_writev, fd, parts, count - 1);
  if (!full) return syscall(SYS_writev, fd, parts, count);
  errno = ENOSPC;
  return -1;
}
extern "C" __attribute__((visibility("default"))) int fdatasync(int fd) {
  return Sync(SYS_fdatasync, fd);
}
extern "C" __attribute__((visibility("default"))) int fsync(int fd) { return Sync(SYS_fsync, fd); }

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

class StoreIoTest : public ShardFixture {
 protected:
  StoreIoTest() : dir_(testing::TempDir() + "/store_io_XXXXXX") {
    CHECK(mkdtemp(dir_.data()) != nullptr);
  }
  ~StoreIoTest() override { std::filesystem::remove_all(dir_); }
  static LogEntry Entry(uint64_t number) {
    PushRecord push{Head({"job", 0, 7}, number, number - 1), {}};
    push.values.assign(push.head.slices.size(), FloatBuffer({1, 2, 3, 4}));
    return {number, std::move(push)};
  }
  // Returns the number of entries in the log.
  static uint64_t EntriesOf(Storage& storage) {
    uint64_t entries = 0;
    const Status read = storage.ReadLog(0, [&](const LogEntry&) {
      ++entries;
      return OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    return entries;
  }

  std::string dir_;
};

TEST_F(StoreIoTest, OneFailedSyncIsForEverAndASuccessorHasAllThatWasWritten) {
  {
    const auto storage = *OpenRocksdbStorage(dir_);
    const LogEntry first = Entry(1), second = Entry(2);
    ASSERT_TRUE(storage->AppendLog({&first, 1}, false).ok());
    g_failures = 1;
    const Status failed = storage->SyncLog();
    g_failures = 0;
    EXPECT_EQ(failed.code(), StatusCode::kUnavailable) << failed;
    EXPECT_THAT(std::string(failed.message()),
                HasSubstr("cannot sync the write-ahead log of " + dir_));
    EXPECT_THAT(std::string(failed.message()), HasSubstr("[TD2110]; hint: start the server again"));
    EXPECT_EQ(storage->AppendLog({&second, 1}, true).status().code(), StatusCode::kUnavailable);
  }
  const auto storage = *OpenRocksdbStorage(dir_);
  EXPECT_EQ(EntriesOf(*storage), 1u);
  const LogEntry second = Entry(2);
  EXPECT_TRUE(storage->AppendLog({&second, 1}, true).ok());
}

// The free space can end between the check and the write, also within an entry.
class NoRoomTest : public StoreIoTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(FirstWrite, NoRoomTest, testing::Bool());

TEST_P(NoRoomTest, TheLogRefusesAnEntryAndAcceptsItLater) {
  uint64_t number = 0;
  {
    const auto storage = *OpenRocksdbStorage(dir_);
    if (!GetParam()) {
      const LogEntry first = Entry(++number);
      ASSERT_TRUE(storage->AppendLog({&first, 1}, false).ok());
    }
    const LogEntry entry = Entry(++number);
    g_full = 2;
    const Status full = storage->AppendLog({&entry, 1}, true).status();
    EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full;
    EXPECT_THAT(std::string(full.message()), HasSubstr("[TD2107]"));
    EXPECT_EQ(storage->SyncLog(), OkStatus()) << "earlier entries become durable meanwhile";
    EXPECT_EQ(EntriesOf(*storage), number - 1);
    EXPECT_EQ(storage->AppendLog({&entry, 1}, true).status(), OkStatus());
    const LogEntry last = Entry(++number);
    EXPECT_TRUE(storage->AppendLog({&last, 1}, true).ok());
    EXPECT_EQ(storage->SyncLog(), OkStatus());
  }
  const auto storage = *OpenRocksdbStorage(dir_);
  EXPECT_EQ(EntriesOf(*storage), number);
}

TEST_F(StoreIoTest, TheNamesOfNewFoldersAreOnTheDisk) {
  g_synced.clear();
  ASSERT_TRUE(OpenRocksdbStorage(dir_ + "/data/shard-0").ok());
  const std::string top = std::filesystem::canonical(dir_);
  EXPECT_TRUE(g_synced.contains(top));
  EXPECT_TRUE(g_synced.contains(top + "/data"));
}

TEST_F(StoreIoTest, RowsWhoseFolderWasRemovedAreNamedAndEndTheServer) {
  std::vector<Status> failures;
  ColdStoreOptions options{.dir = dir_ + "/cold"};
  options.free_bytes_min = 0;
  options.on_failure = [&](const Status& why) { failures.push_back(why); };
  const auto store = *RocksdbColdStore::Open(options);
  const auto rows = store->NewTable(2, 0);
  const float values[2] = {1, 2};
  const ColdRow row{.id = 7, .values = values};
  ASSERT_TRUE(rows->Put({&row, 1}).ok());
  EXPECT_TRUE(failures.empty());
  std::filesystem::remove_all(options.dir);
  const Status gone = store->Flush();
  EXPECT_EQ(gone.code(), StatusCode::kUnavailable) << gone;
  EXPECT_THAT(std::string(gone.message()), HasSubstr("cold rows in " + options.dir));
  EXPECT_THAT(std::string(gone.message()), HasSubstr("[TD2112]; hint: start the server again"));
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0], gone);
}

// Without an update log, a failing disk makes checkpoints fail, but pushes continue.
TEST_F(StoreIoTest, WithoutALogAFailedCheckpointEndsNothing) {
  const auto storage = *OpenRocksdbStorage(dir_);
  DurableShard durable({.later =
                            [](const std::function<void()>& work) {
                              work();
                              return OkStatus();
                            }},
                       storage.get(), clock_, backend_, device_, metrics_);
  Shard& shard = durable.shard();
  ShardConfig config = Config(1, UpdatePolicy::kASync);
  config.slices.resize(1);
  ASSERT_TRUE(shard.Configure(Rank(0), config).ok());
  ASSERT_TRUE(shard.InitParams(Rank(0), 0, {{"fc_0.w", 0, 4, FloatBuffer({1, 2, 3, 4})}}, {}).ok());
  EXPECT_EQ(durable.StorageStatus(), OkStatus());
  g_failures = 1;
  const Status failed = durable.Save().status();
  g_failures = 0;
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(durable.StorageStatus(), failed) << "/readyz and the status page say so";
  PushHead head = Head(Rank(0), 1, 0);
  head.slices.resize(1);
  StatusOr<PushTicket> ticket = shard.AdmitPush(head);
  ASSERT_TRUE(ticket.ok()) << ticket.status();
  std::memset(ticket->buffers[0].mutable_data(), 0, 4 * sizeof(float));
  EXPECT_TRUE(shard.Push(head, *std::move(ticket)).ok());
  EXPECT_EQ(durable.Save().status(), OkStatus());
  EXPECT_EQ(durable.StorageStatus(), OkStatus());
}

}  // namespace
}  // namespace tandem::pserver
