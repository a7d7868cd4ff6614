#include "trainer/ps/row_prefetcher.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/require.h"

namespace tandem::trainer {

struct RowPrefetcher::Pull {
  uint64_t version = 0;
  std::vector<ps::PsRows> rows;  // rows to pull; their destinations point into `values`
  std::vector<int64_t> dims;
  std::vector<std::vector<float>> values;  // pulled values, one vector for each table

  Mutex mu;
  bool ended TD_GUARDED_BY(mu) = false;
  Status status TD_GUARDED_BY(mu);
  // Callback that runs at the end of the pull. Give sets it if the pull has not ended.
  std::function<void(const Status&)> then TD_GUARDED_BY(mu);

  void End(const Status& how) {
    std::function<void(const Status&)> waits;
    {
      MutexLock lock(mu);
      ended = true;
      status = how;
      waits = std::exchange(then, nullptr);
    }
    if (waits) waits(how);
  }
  void CopyTo(const std::vector<std::vector<float*>>& places) const {
    TD_REQUIRE(places.size() == values.size());
    for (size_t t = 0; t < places.size(); ++t) {
      DCHECK_EQ(values[t].size(), places[t].size() * static_cast<size_t>(dims[t]));
      const float* from = values[t].data();
      for (float* const to : places[t]) {
        std::copy_n(from, dims[t], to);
        from += dims[t];
      }
    }
  }
};

void RowPrefetcher::Ask(ps::PsClient& client, uint64_t version, std::vector<ps::PsRows> rows,
                        const std::vector<int64_t>& dims) {
  TD_REQUIRE(rows.size() == dims.size());
  auto pull = std::make_shared<Pull>();
  if (pull_ != nullptr) {
    MutexLock lock(pull_->mu);
    if (pull_->ended) pull->values = std::move(pull_->values);  // reuses the previous pull's memory
  }
  pull->version = version;
  pull->rows = std::move(rows);
  pull->dims = dims;
  pull->values.resize(dims.size());
  for (size_t t = 0; t < dims.size(); ++t) {
    ps::PsRows& table = pull->rows[t];
    pull->values[t].resize(table.ids.size() * static_cast<size_t>(dims[t]));
    table.to.resize(table.ids.size());
    float* to = pull->values[t].data();
    for (float*& place : table.to) place = std::exchange(to, to + dims[t]);
  }
  pull_ = pull;
  client.PullRows({.version = version, .exactly = true}, pull->rows,
                  [pull](const StatusOr<uint64_t>& got) { pull->End(got.status()); });
}

bool RowPrefetcher::Give(uint64_t version, const std::vector<ps::PsRows>& rows, Done done) {
  const auto pull = pull_;
  const auto same = [](const ps::PsRows& a, const ps::PsRows& b) {
    return a.variable == b.variable && a.ids == b.ids;
  };
  if (pull == nullptr || pull->version != version || !std::ranges::equal(pull->rows, rows, same)) {
    return false;
  }
  std::vector<std::vector<float*>> places;
  for (const ps::PsRows& table : rows) places.push_back(table.to);
  auto copy = [pull, places = std::move(places), done = std::move(done)](const Status& status) {
    if (status.ok()) pull->CopyTo(places);
    done(status);
  };
  Status status;
  {
    MutexLock lock(pull->mu);
    if (!pull->ended) {
      pull->then = std::move(copy);
      return true;
    }
    status = pull->status;
  }
  copy(status);
  return true;
}

}  // namespace tandem::trainer
