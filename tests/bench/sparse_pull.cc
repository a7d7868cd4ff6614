// ps_sparse_pull: rows of a growing table on a pserver over loopback, pulled and pushed in requests
// of 10 000 keys, beside a bare loop that gathers the same rows from a hash table in the process.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "kernels/exec/comm.h"
#include "pserver/client/client.h"
#include "pserver/pserver.h"
#include "tests/bench/report.h"

namespace tandem::bench {
namespace {

constexpr int64_t kHeight = int64_t{1} << 40, kDim = 16;
constexpr size_t kRows = 1 << 20, kKeys = 10'000, kRequests = 64;

// Ids far apart, as hashed features are.
int64_t IdOf(uint64_t i) { return static_cast<int64_t>((i * 0x9e3779b97f4a7c15) >> 24); }

// The keys of kRequests requests, each once in its request, ascending.
std::vector<std::vector<int64_t>> Requests() {
  const uint64_t key = StreamKey(1, "sparse_pull");
  std::vector<std::vector<int64_t>> requests(kRequests);
  for (size_t r = 0; r < kRequests; ++r) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      requests[r].push_back(IdOf(Philox(key, r * kKeys + i)[0] % kRows));
    }
    std::sort(requests[r].begin(), requests[r].end());
    requests[r].erase(std::unique(requests[r].begin(), requests[r].end()), requests[r].end());
  }
  return requests;
}

class Table {
 public:
  Status Start() {
    TD_ASSIGN_OR_RETURN(server_, Pserver::Start({}, metrics_));
    PsOptions options;
    TD_ASSIGN_OR_RETURN(client_, PsClient::Connect({ToString(server_->endpoint())}, options));
    const PsTable table = {"emb", kHeight, kDim, PsTable::InitKind::kUniform, -0.1f, 0.1f, 1};
    TD_RETURN_IF_ERROR(client_->Configure({}, PsMode::kASync, {"sgd", {}}, {table}).status());
    TD_RETURN_IF_ERROR(client_->InitOrFetch({}).status());
    std::vector<int64_t> ids;
    for (uint64_t i = 0; i < kRows; ++i) ids.push_back(IdOf(i));
    std::sort(ids.begin(), ids.end());
    for (size_t i = 0; i < kRows; i += kKeys) {
      TD_RETURN_IF_ERROR(Push(std::span(ids).subspan(i, std::min(kKeys, kRows - i))));
    }
    TD_ASSIGN_OR_RETURN(const auto info, client_->ServerInfo());
    if (info[0].rows != kRows) return Internal("%d rows, expected %d", info[0].rows, kRows);
    return OkStatus();
  }
  Status Push(std::span<const int64_t> ids) {
    CommDone done;
    client_->Push(step_++, 0.01f, {}, [&done](const Status& status) { done.Complete(status); },
                  {{"emb", ids, ones_.data()}});
    return done.Wait(Time::max());
  }
  Status Pull(const std::vector<int64_t>& ids) {
    PsRows rows{"emb", ids, {}};
    for (size_t i = 0; i < ids.size(); ++i) rows.to.push_back(out_.data() + i * kDim);
    CommDone done;
    client_->PullRows({}, {std::move(rows)},
                      [&done](const StatusOr<uint64_t>& v) { done.Complete(v.status()); });
    return done.Wait(Time::max());
  }

 private:
  Metrics metrics_;
  std::vector<float> ones_ = std::vector<float>(kKeys * kDim, 1.0f);
  std::vector<float> out_ = std::vector<float>(kKeys * kDim);
  uint64_t step_ = 0;
  std::unique_ptr<Pserver> server_;
  std::unique_ptr<PsClient> client_;
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
  const auto requests = Requests();
  Table table;
  TD_RETURN_IF_ERROR(table.Start());
  TD_ASSIGN_OR_RETURN(
      const double pulled,
      RowsPerSecond(requests, options.seconds, [&](const auto& ids) { return table.Pull(ids); }));
  TD_ASSIGN_OR_RETURN(
      const double pushed,
      RowsPerSecond(requests, options.seconds, [&](const auto& ids) { return table.Push(ids); }));
  Bare bare;
  TD_ASSIGN_OR_RETURN(
      const double gathered,
      RowsPerSecond(requests, options.seconds, [&](const auto& ids) { return bare.Gather(ids); }));
  Report report;
  report.Add("pull_rows_per_s", pulled);
  report.Add("push_rows_per_s", pushed);
  report.Add("bare_rows_per_s", gathered);
  return report;
}

}  // namespace tandem::bench
