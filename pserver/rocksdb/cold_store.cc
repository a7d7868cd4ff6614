#include "pserver/rocksdb/cold_store.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/os/own_files.h"
#include "common/tables/row_buckets.h"
#include "pserver/disk/disk_space.h"
#include "pserver/rocksdb/directory_lock.h"

namespace tandem::pserver {
namespace {

constexpr size_t kGetRows = 1024;  // maximum number of rows per multi-get
// Bits of the bloom filter per row. With 10 bits, 1 % of the lookups of absent rows read a block.
constexpr int kBloomBits = 10;
constexpr uint64_t kMegabyte = 1 << 20;

// The head of a record. The floats of the row follow the head.
struct RecordHead {
  float show, click;
  uint32_t last, shrinks;
};
static_assert(sizeof(RecordHead) == 16, "the format of a record");
static_assert(kRowBuckets <= 1 << 16, "a key has 16 bits for the bucket");
constexpr size_t kKeyBytes = sizeof(uint32_t) + sizeof(uint16_t) + sizeof(uint64_t);

// Appends `number` to a key. Big-endian keys sort in numeric order.
template <typename T>
void AppendBigEndian(T number, std::string& key) {
  for (int shift = sizeof(T) * 8 - 8; shift >= 0; shift -= 8) {
    key.push_back(static_cast<char>(number >> shift));
  }
}

// The functions KeyOf make keys. A key has the number of the table, then the bucket, then the row
// id.
std::string KeyOf(uint32_t table) {
  std::string key;
  AppendBigEndian(table, key);
  return key;
}
std::string KeyOf(uint32_t table, int bucket) {
  std::string key = KeyOf(table);
  AppendBigEndian(static_cast<uint16_t>(bucket), key);
  return key;
}
std::string KeyOf(uint32_t table, uint64_t id) {
  std::string key = KeyOf(table, RowBucket(id));
  AppendBigEndian(id, key);
  return key;
}

uint64_t IdOfKey(const rocksdb::Slice& key) {
  TD_REQUIRE(key.size() == kKeyBytes);
  uint64_t id = 0;
  std::memcpy(&id, key.data() + key.size() - sizeof(id), sizeof(id));
  return __builtin_bswap64(id);
}

rocksdb::Options ColdRocksdbOptions(const ColdStoreOptions& options) {
  rocksdb::Options o;
  o.create_if_missing = true;
  o.paranoid_checks = true;
  o.compression = rocksdb::kNoCompression;  // because weights do not compress
  o.keep_log_file_num = 2;
  o.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  o.avoid_flush_during_shutdown = true;
  o.max_open_files = 512;
  o.write_buffer_size = std::clamp(options.memory_bytes / 32, 4 * kMegabyte, 32 * kMegabyte);
  o.max_write_buffer_number = 3;
  // Files are small, so that a compaction needs little free disk space. Higher levels have larger
  // files, which limits the number of files.
  o.target_file_size_base = o.write_buffer_size;
  o.target_file_size_multiplier = 2;
  o.max_bytes_for_level_base = 4 * o.write_buffer_size;
  o.max_compaction_bytes = 8 * o.write_buffer_size;
  o.level_compaction_dynamic_level_bytes = true;
  o.memtable_prefix_bloom_size_ratio = 0.1;
  o.memtable_whole_key_filtering = true;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache =
      rocksdb::NewLRUCache(std::clamp(options.memory_bytes / 16, 8 * kMegabyte, 256 * kMegabyte));
  table.cache_index_and_filter_blocks = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBits));
  o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return o;
}

}  // namespace

struct RocksdbColdStore::Impl {
  std::string dir;
  std::atomic<uint64_t> free_bytes_min;
  std::function<void(const Status&)> on_failure;
  std::atomic<uint32_t> tables{0};  // number of tables created so far
  std::unique_ptr<rocksdb::DB> db;

  Status From(const rocksdb::Status& status, const char* what) const {
    if (status.ok()) return OkStatus();
    const std::string text =
        absl::StrFormat("cannot %s the cold rows in %s: %s", what, dir, status.ToString());
    if (status.IsCorruption()) return DataLoss("%s", text);
    if (status.IsNoSpace())
      return ResourceExhausted("the disk is full: %s [TD2107]; hint: free space on the disk", text);
    const Status failed = Unavailable(
        "the store of cold rows failed: %s [TD2112]; hint: start the server again, which reads all "
        "rows from its checkpoint and log",
        text);
    if (on_failure) on_failure(failed);
    return failed;
  }
  Status CheckSpace(size_t bytes) const {
    return CheckDiskSpace("cold rows in", dir, free_bytes_min, bytes);
  }
  Status Write(rocksdb::WriteBatch& batch) {
    TD_RETURN_IF_ERROR(CheckSpace(batch.GetDataSize()));
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    return From(db->Write(options, &batch), "write");
  }
};

RocksdbColdStore::RocksdbColdStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RocksdbColdStore::~RocksdbColdStore() = default;

StatusOr<std::unique_ptr<RocksdbColdStore>> RocksdbColdStore::Open(
    const ColdStoreOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->dir = options.dir;
  impl->free_bytes_min = options.free_bytes_min;
  const auto make = [&options] {
    return Annotate(MakeOwnDir(options.dir, OwnRule::kGroup).status(), "cold rows");
  };
  TD_RETURN_IF_ERROR(make());
  TD_RETURN_IF_ERROR(WaitForDirectoryLock("cold rows in", options.dir, "--rocksdb_path"));
  const rocksdb::Options o = ColdRocksdbOptions(options);
  TD_RETURN_IF_ERROR(impl->From(rocksdb::DestroyDB(options.dir, o), "empty"));
  TD_RETURN_IF_ERROR(make());  // makes the directory again, because DestroyDB removes it
  TD_RETURN_IF_ERROR(impl->CheckSpace(0));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(o, options.dir, &db);
  impl->db.reset(db);
  TD_RETURN_IF_ERROR(impl->From(status, "open"));
  impl->on_failure = options.on_failure;
  return std::unique_ptr<RocksdbColdStore>(new RocksdbColdStore(std::move(impl)));
}

void RocksdbColdStore::set_free_bytes_min(uint64_t bytes) { impl_->free_bytes_min = bytes; }
Status RocksdbColdStore::Flush() { return impl_->From(impl_->db->Flush({}), "write"); }

namespace {

class RocksdbColdRows final : public ColdRows {
 public:
  RocksdbColdRows(RocksdbColdStore::Impl& store, int64_t floats, int64_t brief);
  ~RocksdbColdRows() override;

  Status Put(std::span<const ColdRow> rows) override;
  Status Get(std::vector<uint64_t>& ids, const Take& take) const override;
  Status Scan(int bucket, const Take& take) const override;
  Status Remove(std::span<const uint64_t> ids) override;

 private:
  Status Read(uint64_t id, const char* record, size_t bytes, const Take& take) const;

  RocksdbColdStore::Impl& store_;
  const size_t record_bytes_, brief_bytes_;
  const uint32_t table_;  // number of the table; all its keys begin with this number
};

RocksdbColdRows::RocksdbColdRows(RocksdbColdStore::Impl& store, int64_t floats, int64_t brief)
    : store_(store),
      record_bytes_(sizeof(RecordHead) + static_cast<size_t>(floats) * sizeof(float)),
      brief_bytes_(sizeof(RecordHead) + static_cast<size_t>(brief) * sizeof(float)),
      table_(store_.tables++) {}

RocksdbColdRows::~RocksdbColdRows() {
  rocksdb::WriteBatch batch;
  (void)batch.DeleteRange(KeyOf(table_), KeyOf(table_ + 1));
  const Status status = store_.Write(batch);
  LOG_IF(WARNING, !status.ok()) << "cannot remove the cold rows of a removed table: "
                                << ToString(status);
}

Status RocksdbColdRows::Put(std::span<const ColdRow> rows) {
  rocksdb::WriteBatch batch((record_bytes_ + 32) * rows.size());
  for (const ColdRow& row : rows) {
    const RecordHead head{row.use.show, row.use.click, row.use.last, row.shrinks};
    TD_REQUIRE(row.values != nullptr && (!row.brief || brief_bytes_ > sizeof(RecordHead)));
    const size_t bytes = row.brief ? brief_bytes_ : record_bytes_;
    const std::string key = KeyOf(table_, row.id);
    const rocksdb::Slice key_slice(key);
    const rocksdb::Slice value[] = {{reinterpret_cast<const char*>(&head), sizeof(head)},
                                    {static_cast<const char*>(row.values), bytes - sizeof(head)}};
    (void)batch.Put(rocksdb::SliceParts(&key_slice, 1), rocksdb::SliceParts(value, 2));
  }
  return store_.Write(batch);
}

Status RocksdbColdRows::Read(uint64_t id, const char* record, size_t bytes,
                             const Take& take) const {
  const bool brief = bytes != record_bytes_;
  if (brief && (bytes != brief_bytes_ || bytes == sizeof(RecordHead))) {
    return DataLoss(
        "cold rows in %s: row %d has %d bytes, expected %d bytes [TD2112]; hint: start the server "
        "again",
        store_.dir, id, bytes, record_bytes_);
  }
  RecordHead head;
  std::memcpy(&head, record, sizeof(head));
  return take({id, {head.show, head.click, head.last}, head.shrinks, record + sizeof(head), brief});
}

Status RocksdbColdRows::Get(std::vector<uint64_t>& ids, const Take& take) const {
  std::sort(ids.begin(), ids.end(), [](uint64_t a, uint64_t b) {
    const int bucket_a = RowBucket(a), bucket_b = RowBucket(b);
    return bucket_a != bucket_b ? bucket_a < bucket_b : a < b;
  });
  std::vector<std::string> keys(std::min(ids.size(), kGetRows));
  std::vector<rocksdb::Slice> slices(keys.size());
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  for (size_t begin = 0; begin < ids.size(); begin += kGetRows) {
    const size_t n = std::min(kGetRows, ids.size() - begin);
    for (size_t i = 0; i < n; ++i) slices[i] = keys[i] = KeyOf(table_, ids[begin + i]);
    store_.db->MultiGet({}, store_.db->DefaultColumnFamily(), n, slices.data(), values.data(),
                        statuses.data(), /*sorted_input=*/true);
    for (size_t i = 0; i < n; ++i) {
      if (!statuses[i].IsNotFound()) {
        TD_RETURN_IF_ERROR(store_.From(statuses[i], "read"));
        TD_RETURN_IF_ERROR(Read(ids[begin + i], values[i].data(), values[i].size(), take));
      }
      values[i].Reset();
    }
  }
  return OkStatus();
}

Status RocksdbColdRows::Scan(int bucket, const Take& take) const {
  TD_REQUIRE(bucket >= 0 && bucket < kRowBuckets);
  const std::string begin = KeyOf(table_, bucket), end = KeyOf(table_, bucket + 1);
  const rocksdb::Slice end_slice(end);
  rocksdb::ReadOptions options;
  options.fill_cache = false;  // a scan must not displace cached rows
  options.iterate_upper_bound = &end_slice;
  const std::unique_ptr<rocksdb::Iterator> it(store_.db->NewIterator(options));
  for (it->Seek(begin); it->Valid(); it->Next()) {
    TD_RETURN_IF_ERROR(Read(IdOfKey(it->key()), it->value().data(), it->value().size(), take));
  }
  return store_.From(it->status(), "read");
}

Status RocksdbColdRows::Remove(std::span<const uint64_t> ids) {
  if (ids.empty()) return OkStatus();
  rocksdb::WriteBatch batch;
  for (const uint64_t id : ids) (void)batch.Delete(KeyOf(table_, id));
  return store_.Write(batch);
}

}  // namespace

std::unique_ptr<ColdRows> RocksdbColdStore::NewTable(int64_t floats, int64_t brief) {
  TD_REQUIRE(floats >= 1 && brief >= 0 && brief < floats);
  return std::make_unique<RocksdbColdRows>(*impl_, floats, brief);
}

}  // namespace tandem::pserver
