// ps_vs_stores: pulls of rows of a table on a pserver on this host. Requests have 10 000 different
// keys, and two requests are in progress. For comparison, the benchmark sends requests for the same
// rows to Redis (MGET over its Unix socket) and to RocksDB in this process (MultiGet). Both stores
// hold all rows in memory, and their requests are encoded before the time is measured. The same
// table is also measured with memory for a tenth of its rows.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/bench/report.h"
#include "tests/bench/rows_table.h"

namespace tandem::bench {
namespace {

// Number of requests to the table whose memory holds a tenth of the rows. The requests fill the
// memory. Their number is low because they are slow.
constexpr size_t kTieredRequests = 16;
constexpr size_t kRowBytes = kDim * sizeof(float), kIdBytes = sizeof(int64_t);

// Returns a key for `id`. The byte order of keys is the numeric order of ids, so ascending ids are
// ascending keys.
std::string KeyOf(int64_t id) {
  const uint64_t swapped = __builtin_bswap64(static_cast<uint64_t>(id));
  return {reinterpret_cast<const char*>(&swapped), kIdBytes};
}

// A client of Redis. It implements the needed part of RESP
// (https://redis.io/docs/reference/protocol-spec).
class Redis {
 public:
  ~Redis() {
    if (socket_ >= 0) close(socket_);
  }
  Status Connect(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) return InvalidArgument("%s is too long", path);
    std::memcpy(address.sun_path, path.data(), path.size());
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      return OkStatus();
    }
    return Unavailable("Redis at %s: %s", path, ErrnoText(errno));
  }
  Status Load(std::span<const int64_t> ids, const float* rows) {
    std::string command = "*" + std::to_string(1 + 2 * ids.size()) + "\r\n$4\r\nMSET\r\n";
    for (size_t i = 0; i < ids.size(); ++i) {
      AppendBulk(KeyOf(ids[i]), command);
      AppendBulk({reinterpret_cast<const char*>(rows + i * kDim), kRowBytes}, command);
    }
    TD_RETURN_IF_ERROR(Send(command));
    return Expect("+OK\r\n");
  }
  static std::string Request(const std::vector<int64_t>& ids) {
    std::string command = "*" + std::to_string(1 + ids.size()) + "\r\n$4\r\nMGET\r\n";
    for (const int64_t id : ids) AppendBulk(KeyOf(id), command);
    return command;
  }
  // Sends a request. If two requests are in progress after that, receives the reply to the older
  // request.
  Status Pull(const std::string& request) {
    TD_RETURN_IF_ERROR(Send(request));
    return ++under_way_ < 2 ? OkStatus() : Receive();
  }
  Status AwaitPulls() {
    while (under_way_ > 0) TD_RETURN_IF_ERROR(Receive());
    return OkStatus();
  }
  std::span<const float> out() const { return out_; }

 private:
  static void AppendBulk(std::string_view text, std::string& command) {
    command += "$" + std::to_string(text.size()) + "\r\n";
    command += text;
    command += "\r\n";
  }
  Status Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n < 0) return Unavailable("Redis: %s", ErrnoText(errno));
      text.remove_prefix(static_cast<size_t>(n));
    }
    return OkStatus();
  }
  Status Read(char* to, size_t bytes) {
    const ssize_t n = recv(socket_, to, bytes, MSG_WAITALL);
    if (n == static_cast<ssize_t>(bytes)) return OkStatus();
    return Unavailable("Redis: %s", n < 0 ? ErrnoText(errno) : "it hung up");
  }
  Status Expect(const std::string& expected) {
    std::string got(expected.size(), '\0');
    TD_RETURN_IF_ERROR(Read(got.data(), got.size()));
    return got == expected ? OkStatus() : Internal("Redis answers \"%s\"", got);
  }
  // Receives one reply. The length of a reply is known, because the reply contains every requested
  // row.
  Status Receive() {
    --under_way_;
    TD_RETURN_IF_ERROR(Expect("*" + std::to_string(kKeys) + "\r\n"));
    static const std::string kHead = "$" + std::to_string(kRowBytes) + "\r\n";
    const size_t each = kHead.size() + kRowBytes + 2;
    answer_.resize(kKeys * each);
    TD_RETURN_IF_ERROR(Read(answer_.data(), answer_.size()));
    for (size_t i = 0; i < kKeys; ++i) {
      const char* row = answer_.data() + i * each;
      if (std::memcmp(row, kHead.data(), kHead.size()) != 0) return Internal("Redis lacks a row");
      std::memcpy(out_.data() + i * kDim, row + kHead.size(), kRowBytes);
    }
    return OkStatus();
  }

  int socket_ = -1;
  int under_way_ = 0;
  std::string answer_;
  std::vector<float> out_ = std::vector<float>(kKeys * kDim);
};

class RocksDb {
 public:
  Status Open(const std::string& dir) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.write_buffer_size = 256 << 20;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(size_t{1} << 30);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* db = nullptr;
    rocksdb::Status status = rocksdb::DestroyDB(dir, options);
    if (status.ok()) status = rocksdb::DB::Open(options, dir, &db);
    db_.reset(db);
    return From(status);
  }
  Status Load(std::span<const int64_t> ids, const float* rows) {
    rocksdb::WriteBatch batch;
    for (size_t i = 0; i < ids.size(); ++i) {
      (void)batch.Put(KeyOf(ids[i]), {reinterpret_cast<const char*>(rows + i * kDim), kRowBytes});
    }
    return From(db_->Write({}, &batch));
  }
  // Merges all sorted files into one run, as RocksDB does when it is idle.
  Status Compact() { return From(db_->CompactRange({}, nullptr, nullptr)); }
  static std::vector<std::string> Request(const std::vector<int64_t>& ids) {
    std::vector<std::string> keys;
    for (const int64_t id : ids) keys.push_back(KeyOf(id));
    return keys;
  }
  Status Pull(const std::vector<std::string>& keys) {
    slices_.assign(keys.begin(), keys.end());
    values_.resize(keys.size());
    statuses_.resize(keys.size());
    rocksdb::ReadOptions options;
    options.verify_checksums = false;
    db_->MultiGet(options, db_->DefaultColumnFamily(), keys.size(), slices_.data(), values_.data(),
                  statuses_.data(), /*sorted_input=*/true);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!statuses_[i].ok()) return From(statuses_[i]);
      std::memcpy(out_.data() + i * kDim, values_[i].data(), kRowBytes);
      values_[i].Reset();
    }
    return OkStatus();
  }
  std::span<const float> out() const { return out_; }

 private:
  static Status From(const rocksdb::Status& status) {
    return status.ok() ? OkStatus() : Internal("RocksDB: %s", status.ToString());
  }
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::Slice> slices_;
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<rocksdb::Status> statuses_;
  std::vector<float> out_ = std::vector<float>(kKeys * kDim);
};

// Copies the rows of the table into both stores, Redis and RocksDB.
Status Fill(RowsTable& table, Redis& redis, RocksDb& rocksdb) {
  const std::vector<int64_t> all = AllIds();
  for (size_t i = 0; i < kRows; i += kKeys) {
    const std::vector<int64_t> ids(all.begin() + static_cast<int64_t>(i),
                                   all.begin() + static_cast<int64_t>(std::min(i + kKeys, kRows)));
    TD_RETURN_IF_ERROR(table.Pull(ids));
    TD_RETURN_IF_ERROR(table.AwaitPulls());
    TD_RETURN_IF_ERROR(redis.Load(ids, table.out().data()));
    TD_RETURN_IF_ERROR(rocksdb.Load(ids, table.out().data()));
  }
  return rocksdb.Compact();
}

Status CheckSame(std::span<const float> got, std::span<const float> expected, const char* whose) {
  return std::equal(got.begin(), got.end(), expected.begin(), expected.end())
             ? OkStatus()
             : Internal("%s gives other rows", whose);
}

}  // namespace

StatusOr<Report> PsVsStores(const RunOptions& options) {
  if (options.export_dir.empty()) {
    return InvalidArgument("--export_dir: a folder with the socket redis.sock of a Redis");
  }
  RowsTable table, tiered;
  TD_RETURN_IF_ERROR(table.Start({.transport = ps::PsTransport::kShm}));
  Redis redis;
  TD_RETURN_IF_ERROR(redis.Connect(options.export_dir + "/redis.sock"));
  RocksDb rocksdb;
  TD_RETURN_IF_ERROR(rocksdb.Open(options.export_dir + "/rocksdb"));
  TD_RETURN_IF_ERROR(Fill(table, redis, rocksdb));
  TD_RETURN_IF_ERROR(tiered.Start({.transport = ps::PsTransport::kShm,
                                   .memory_share = 0.1,
                                   .cold_dir = options.export_dir + "/cold"}));
  Report report;
  for (const bool zipf : {false, true}) {
    const Keys requests = Draw(zipf ? Zipf() : std::vector<double>());
    std::vector<std::string> of_redis;
    std::vector<std::vector<std::string>> of_rocksdb;
    for (const auto& ids : requests) {
      of_redis.push_back(Redis::Request(ids));
      of_rocksdb.push_back(RocksDb::Request(ids));
    }
    const auto measure = [&](const char* name, const auto& all, const auto& run) -> Status {
      TD_ASSIGN_OR_RETURN(const double rate, RowsPerSecond(all, options.seconds, run));
      report.Add(std::string(zipf ? "zipf_" : "") + name, rate);
      return OkStatus();
    };
    TD_RETURN_IF_ERROR(
        measure("pull_rows_per_s", requests, [&](const auto& ids) { return table.Pull(ids); }));
    TD_RETURN_IF_ERROR(table.AwaitPulls());
    TD_RETURN_IF_ERROR(measure("redis_rows_per_s", of_redis,
                               [&](const auto& request) { return redis.Pull(request); }));
    TD_RETURN_IF_ERROR(redis.AwaitPulls());
    TD_RETURN_IF_ERROR(measure("rocksdb_rows_per_s", of_rocksdb,
                               [&](const auto& keys) { return rocksdb.Pull(keys); }));
    TD_RETURN_IF_ERROR(measure("tiered_rows_per_s", std::span(requests).last(kTieredRequests),
                               [&](const auto& ids) { return tiered.Pull(ids); }));
    TD_RETURN_IF_ERROR(tiered.AwaitPulls());
    TD_RETURN_IF_ERROR(CheckSame(redis.out(), table.out(), "Redis"));
    TD_RETURN_IF_ERROR(CheckSame(rocksdb.out(), table.out(), "RocksDB"));
    TD_RETURN_IF_ERROR(CheckSame(tiered.out(), table.out(), "the table in two tiers"));
  }
  return report;
}

}  // namespace tandem::bench
