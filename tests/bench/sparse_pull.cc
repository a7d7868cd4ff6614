// ps_sparse_pull: rows of a growing table with admission on a pserver on this host, pulled (through
// shared memory and over gRPC, two requests under way) and pushed in requests of 10 000 different
// keys, uniform and zipf, beside a bare loop that gathers the same rows from a hash table in the
// process; between the two the servers' table, asked directly.
#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/tensor/row_buckets.h"
#include "kernels/exec/comm.h"
#include "pserver/sparse_table.h"
#include "tests/bench/ps_pair.h"
#include "tests/bench/report.h"

namespace tandem::bench {
namespace {

constexpr int64_t kHeight = int64_t{1} << 40, kDim = 16;
constexpr size_t kRows = 1 << 20, kKeys = 10'000, kRequests = 64;

// Ids far apart, as hashed features are.
int64_t IdOf(uint64_t i) { return static_cast<int64_t>((i * 0x9e3779b97f4a7c15) >> 24); }

using Keys = std::vector<std::vector<int64_t>>;  // of kRequests requests

// Draws rows until each request has kKeys of them, each once, ascending. `cdf` [kRows]: the chance
// of the rows up to each; empty: all alike.
Keys Draw(const std::vector<double>& cdf) {
  const uint64_t key = StreamKey(1, "sparse_pull");
  Keys requests(kRequests);
  uint64_t drawn = 0;
  for (auto& ids : requests) {
    absl::flat_hash_set<uint64_t> rows;
    while (rows.size() < kKeys) {
      const auto word = Philox(key, drawn++);
      if (cdf.empty()) {
        rows.insert(word[0] % kRows);
        continue;
      }
      const double u = (static_cast<double>(word[0]) + word[1] * 0x1p-32) * 0x1p-32 * cdf.back();
      const auto at = std::lower_bound(cdf.begin(), cdf.end() - 1, u);
      rows.insert(static_cast<uint64_t>(at - cdf.begin()));
    }
    for (const uint64_t row : rows) ids.push_back(IdOf(row));
    std::sort(ids.begin(), ids.end());
  }
  return requests;
}

// Row i with a chance of 1 / (i + 1)^1.05, as in the measurements that the goal comes from.
std::vector<double> Zipf() {
  std::vector<double> cdf(kRows);
  double sum = 0;
  for (size_t i = 0; i < kRows; ++i) cdf[i] = sum += std::pow(static_cast<double>(i + 1), -1.05);
  return cdf;
}

class Table {
 public:
  Status Start(PsTransport transport) {
    TD_RETURN_IF_ERROR(ps_.Start(transport));
    const PsTable table = {"emb", kHeight, kDim, PsTable::InitKind::kUniform,
                           -0.1f, 0.1f,    1,    "admit_count=2"};
    TD_RETURN_IF_ERROR(ps_.client->Configure({}, PsMode::kASync, {"sgd", {}}, {table}).status());
    TD_RETURN_IF_ERROR(ps_.client->InitOrFetch({}).status());
    std::vector<int64_t> ids;
    for (uint64_t i = 0; i < kRows; ++i) ids.push_back(IdOf(i));
    std::sort(ids.begin(), ids.end());
    for (int twice = 0; twice < 2; ++twice) {
      for (size_t i = 0; i < kRows; i += kKeys) {
        TD_RETURN_IF_ERROR(Push(std::span(ids).subspan(i, std::min(kKeys, kRows - i))));
      }
    }
    TD_ASSIGN_OR_RETURN(const auto info, ps_.client->ServerInfo());
    if (info[0].rows != kRows) return Internal("%d rows, expected %d", info[0].rows, kRows);
    return OkStatus();
  }
  Status Push(std::span<const int64_t> ids) {
    CommDone done;
    ps_.client->Push(step_++, 0.01f, {}, [&done](const Status& status) { done.Complete(status); },
                     {{"emb", ids, ones_.data()}});
    return done.Wait(Time::max());
  }
  // Starts the next pull once the one before the last has ended.
  Status Pull(const std::vector<int64_t>& ids) {
    UnderWay& next = under_way_[pulls_++ % 2];
    TD_RETURN_IF_ERROR(Await(next));
    PsRows rows{"emb", ids, {}};
    rows.to.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) rows.to.push_back(next.out.data() + i * kDim);
    next.started = true;
    ps_.client->PullRows({}, {std::move(rows)},
                         [&next](const StatusOr<uint64_t>& v) { next.done.Complete(v.status()); });
    return OkStatus();
  }
  Status AwaitPulls() {
    TD_RETURN_IF_ERROR(Await(under_way_[0]));
    return Await(under_way_[1]);
  }

 private:
  struct UnderWay {
    std::vector<float> out = std::vector<float>(kKeys * kDim);
    bool started = false;
    CommDone done;
  };
  static Status Await(UnderWay& pull) {
    if (!pull.started) return OkStatus();
    TD_RETURN_IF_ERROR(pull.done.Wait(Time::max()));
    pull.done.Reset();
    pull.started = false;
    return OkStatus();
  }

  std::vector<float> ones_ = std::vector<float>(kKeys * kDim, 1.0f);
  UnderWay under_way_[2];
  uint64_t pulls_ = 0;
  uint64_t step_ = 0;
  PsPair ps_;  // last: its calls use the rest
};

// The servers' table without a lane.
class Direct {
 public:
  Status Start() {
    TableSpec spec{"emb", Shape{kHeight, kDim}, {Init::kUniform, -0.1f, 0.1f}, 1, 0, kRowBuckets};
    TD_ASSIGN_OR_RETURN(spec.rules, ParseTableRules("admit_count=2"));
    TD_ASSIGN_OR_RETURN(table_, SparseTable::Make(spec, {"sgd", {}}, backend_, device_));
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < kRows; ++i) ids.push_back(static_cast<uint64_t>(IdOf(i)));
    std::sort(ids.begin(), ids.end());
    const std::vector<float> ones(kRows * kDim, 1.0f);
    const RowsGradient all[] = {{ids, ones.data()}};
    for (const uint64_t version : {0, 1}) {
      TD_RETURN_IF_ERROR(table_->Begin(version, false));
      TD_RETURN_IF_ERROR(table_->Apply(all, 0.01f));
    }
    return table_->rows() == kRows ? OkStatus() : Internal("%d rows", table_->rows());
  }
  Status Pull(const std::vector<int64_t>& ids) {
    const std::span keys(reinterpret_cast<const uint64_t*>(ids.data()), ids.size());
    TD_RETURN_IF_ERROR(table_->CheckIds(keys, false));
    return table_->Pull(keys, false, out_.data());
  }

 private:
  CpuDevice device_;
  Backend backend_ = Backend::Cpu();
  std::unique_ptr<SparseTable> table_;
  std::vector<float> out_ = std::vector<float>(kKeys * kDim);
};

// Hash table and rows in plain arrays, looked up in groups.
class Bare {
 public:
  Bare() : rows_(kRows * kDim, 1.0f), out_(kKeys * kDim) {
    for (uint64_t i = 0; i < kRows; ++i) index_.emplace(IdOf(i), static_cast<uint32_t>(i));
  }
  Status Gather(const std::vector<int64_t>& ids) {
    constexpr size_t kGroup = 16;
    uint32_t at[kGroup];
    for (size_t begin = 0; begin < ids.size(); begin += kGroup) {
      const size_t n = std::min(kGroup, ids.size() - begin);
      for (size_t i = 0; i < n; ++i) index_.prefetch(ids[begin + i]);
      for (size_t i = 0; i < n; ++i) {
        at[i] = index_.find(ids[begin + i])->second;
        __builtin_prefetch(rows_.data() + at[i] * kDim);
      }
      for (size_t i = 0; i < n; ++i) {
        std::copy_n(rows_.data() + at[i] * kDim, kDim, out_.data() + (begin + i) * kDim);
      }
    }
    return OkStatus();
  }

 private:
  absl::flat_hash_map<int64_t, uint32_t> index_;
  std::vector<float> rows_, out_;
};

// Rows a second of `run` over all requests, again and again.
template <typename Run>
StatusOr<double> RowsPerSecond(const std::vector<std::vector<int64_t>>& requests, double seconds,
                               const Run& run) {
  for (const auto& ids : requests) TD_RETURN_IF_ERROR(run(ids));
  size_t rows = 0;
  const Time start = SteadyNow();
  double taken = 0;
  while (taken < seconds) {
    for (const auto& ids : requests) {
      TD_RETURN_IF_ERROR(run(ids));
      rows += ids.size();
    }
    taken = Seconds(SteadyNow() - start);
  }
  return static_cast<double>(rows) / taken;
}

}  // namespace

StatusOr<Report> PsSparsePull(const RunOptions& options) {
  Table table, by_grpc;
  TD_RETURN_IF_ERROR(table.Start(PsTransport::kShm));
  TD_RETURN_IF_ERROR(by_grpc.Start(PsTransport::kGrpc));
  Direct direct;
  TD_RETURN_IF_ERROR(direct.Start());
  Bare bare;
  Report report;
  for (const bool zipf : {false, true}) {
    const Keys requests = Draw(zipf ? Zipf() : std::vector<double>());
    const auto measure = [&](const char* name, const auto& run) -> Status {
      TD_ASSIGN_OR_RETURN(const double rate, RowsPerSecond(requests, options.seconds, run));
      report.Add(std::string(zipf ? "zipf_" : "") + name, rate);
      return OkStatus();
    };
    TD_RETURN_IF_ERROR(
        measure("pull_rows_per_s", [&](const auto& ids) { return table.Pull(ids); }));
    TD_RETURN_IF_ERROR(table.AwaitPulls());
    TD_RETURN_IF_ERROR(
        measure("grpc_pull_rows_per_s", [&](const auto& ids) { return by_grpc.Pull(ids); }));
    TD_RETURN_IF_ERROR(by_grpc.AwaitPulls());
    TD_RETURN_IF_ERROR(
        measure("push_rows_per_s", [&](const auto& ids) { return table.Push(ids); }));
    TD_RETURN_IF_ERROR(
        measure("table_rows_per_s", [&](const auto& ids) { return direct.Pull(ids); }));
    TD_RETURN_IF_ERROR(
        measure("bare_rows_per_s", [&](const auto& ids) { return bare.Gather(ids); }));
  }
  return report;
}

}  // namespace tandem::bench
