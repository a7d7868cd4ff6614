#include "tests/bench/rows_table.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "common/base/rng.h"
#include "pserver/tables/rows/row_store.h"

namespace tandem::bench {

std::vector<int64_t> AllIds() {
  std::vector<int64_t> ids;
  for (uint64_t i = 0; i < kRows; ++i) ids.push_back(IdOf(i));
  std::sort(ids.begin(), ids.end());
  return ids;
}

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

std::vector<double> Zipf() {
  std::vector<double> cdf(kRows);
  double sum = 0;
  for (size_t i = 0; i < kRows; ++i) cdf[i] = sum += std::pow(static_cast<double>(i + 1), -1.05);
  return cdf;
}

Status RowsTable::Start(const Options& options) {
  pserver::PserverOptions server;
  if (options.memory_share < 1) {
    const auto all = static_cast<double>(kRows * pserver::RowMemoryBytes(kDim));
    server.table_memory_bytes = static_cast<uint64_t>(options.memory_share * all);
    server.cold_dir = options.cold_dir;
  }
  ps::PsOptions client;
  client.transport = options.transport;
  TD_RETURN_IF_ERROR(ps_.Start(server, client));
  const ps::PsTable table = {"emb", kHeight, kDim, ps::PsTable::InitKind::kUniform,
                             -0.1f, 0.1f,    1,    "admit_count=2"};
  TD_RETURN_IF_ERROR(ps_.client->Configure({}, ps::PsMode::kASync, {"sgd", {}}, {table}).status());
  TD_RETURN_IF_ERROR(ps_.client->InitOrFetch({}).status());
  const std::vector<int64_t> ids = AllIds();
  for (int twice = 0; twice < 2; ++twice) {
    for (size_t i = 0; i < kRows; i += kKeys) {
      TD_RETURN_IF_ERROR(Push(std::span(ids).subspan(i, std::min(kKeys, kRows - i))));
    }
  }
  TD_ASSIGN_OR_RETURN(const auto info, ps_.client->ServerInfo());
  if (info[0].rows != kRows) return Internal("%d rows, expected %d", info[0].rows, kRows);
  return OkStatus();
}

Status RowsTable::Push(std::span<const int64_t> ids) {
  exec::CommDone done;
  ps_.client->Push(step_++, 0.01f, {}, [&done](const Status& status) { done.Complete(status); },
                   {{"emb", ids, ones_.data()}});
  return done.Wait(Time::max());
}

Status RowsTable::Pull(const std::vector<int64_t>& ids) {
  UnderWay& next = under_way_[pulls_++ % 2];
  TD_RETURN_IF_ERROR(Await(next));
  ps::PsRows rows{"emb", ids, {}};
  rows.to.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) rows.to.push_back(next.out.data() + i * kDim);
  next.started = true;
  ps_.client->PullRows({}, {std::move(rows)},
                       [&next](const StatusOr<uint64_t>& v) { next.done.Complete(v.status()); });
  return OkStatus();
}

Status RowsTable::AwaitPulls() {
  TD_RETURN_IF_ERROR(Await(under_way_[0]));
  return Await(under_way_[1]);
}

Status RowsTable::Await(UnderWay& pull) {
  if (!pull.started) return OkStatus();
  TD_RETURN_IF_ERROR(pull.done.Wait(Time::max()));
  pull.done.Reset();
  pull.started = false;
  return OkStatus();
}

}  // namespace tandem::bench
