// ps_sparse_pull: pulls and pushes of rows in a growing table with admission, on a pserver on this
// host. Requests have 10 000 different keys, drawn uniformly or by Zipf's law. Pulls use shared
// memory and gRPC, with two requests in progress. For comparison, the benchmark also measures a
// loop that gathers the same rows from a hash table in this process, and direct calls of the table
// class of the pserver.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "common/tables/row_buckets.h"
#include "pserver/tables/sparse_table.h"
#include "tests/bench/report.h"
#include "tests/bench/rows_table.h"

namespace tandem::bench {
namespace {

// Calls the table class of the pserver directly, without a transport.
class Direct {
 public:
  Status Start() {
    pserver::TableSpec spec{"emb", Shape{kHeight, kDim}, {graph::Init::kUniform, -0.1f, 0.1f}, 1,
                            0,     kRowBuckets};
    TD_ASSIGN_OR_RETURN(spec.rules, ParseTableRules("admit_count=2"));
    TD_ASSIGN_OR_RETURN(table_, pserver::SparseTable::Make(spec, {"sgd", {}}, backend_, device_));
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < kRows; ++i) ids.push_back(static_cast<uint64_t>(IdOf(i)));
    std::sort(ids.begin(), ids.end());
    const std::vector<float> ones(kRows * kDim, 1.0f);
    const pserver::RowsGradient all[] = {{ids, ones.data()}};
    for (const uint64_t version : {0, 1}) {
      TD_RETURN_IF_ERROR(table_->Begin(version, 0, false));
      TD_RETURN_IF_ERROR(table_->Apply(all, 0.01f));
    }
    return table_->rows() == kRows ? OkStatus() : Internal("%d rows", table_->rows());
  }
  Status Pull(const std::vector<int64_t>& ids) {
    const std::span keys(reinterpret_cast<const uint64_t*>(ids.data()), ids.size());
    TD_RETURN_IF_ERROR(table_->buckets().CheckServed(keys, false));
    return table_->Pull(keys, false, out_.data());
  }

 private:
  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
  std::unique_ptr<pserver::SparseTable> table_;
  std::vector<float> out_ = std::vector<float>(kKeys * kDim);
};

// A hash table and rows in plain arrays. Rows are looked up in groups.
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

}  // namespace

StatusOr<Report> PsSparsePull(const RunOptions& options) {
  RowsTable table, by_grpc;
  TD_RETURN_IF_ERROR(table.Start({.transport = ps::PsTransport::kShm}));
  TD_RETURN_IF_ERROR(by_grpc.Start({.transport = ps::PsTransport::kGrpc}));
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
