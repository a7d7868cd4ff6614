// A server with a log and a table, to which benchmarks push rows.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/exec/comm.h"
#include "tests/bench/dense_ps.h"
#include "tests/bench/ps_pair.h"
#include "tests/bench/rows_table.h"

namespace tandem::bench {

inline constexpr size_t kRowsOfPush = 1000;
inline constexpr size_t kIds = 100'000;                     // different rows
inline constexpr size_t kChangedRowsMax = size_t{4} << 20;  // PserverOptions::changed_rows_max

// A server with a log and a table.
class LoggedTable {
 public:
  Status Start(const std::string& dir, size_t changed_rows_max = kChangedRowsMax) {
    pserver::PserverOptions options;
    options.job = "bench";
    options.data_dir = dir;
    options.durability = pserver::Durability::kLogged;
    options.changed_rows_max = changed_rows_max;
    ps::PsOptions client;
    client.job = "bench";
    client.transport = ps::PsTransport::kShm;
    TD_RETURN_IF_ERROR(ps_.Start(options, client));
    const ps::PsTable table = {"emb", kHeight, kDim, ps::PsTable::InitKind::kUniform,
                               -0.1f, 0.1f,    1,    ""};
    TD_RETURN_IF_ERROR(
        ps_.client->Configure({}, ps::PsMode::kASync, {"adagrad", {}}, {table}).status());
    return ps_.client->InitOrFetch({}).status();
  }
  // Makes one push and waits for its acknowledgement.
  Status Push() {
    std::vector<int64_t> ids;
    const size_t first = step_ * kRowsOfPush % kIds;
    for (size_t i = 0; i < kRowsOfPush; ++i) ids.push_back(IdOf((first + i) % kIds));
    std::sort(ids.begin(), ids.end());
    exec::CommDone done;
    ps_.client->Push(step_++, kRate, {}, [&](const Status& s) { done.Complete(s); },
                     {{"emb", ids, gradients_.data()}});
    return done.Wait(Time::max());
  }
  uint64_t pushes() const { return step_; }
  Endpoint endpoint() const { return ps_.server->endpoint(); }

 private:
  PsPair ps_;
  const std::vector<float> gradients_ = std::vector<float>(kRowsOfPush * kDim, 1.0f);
  uint64_t step_ = 0;
};

}  // namespace tandem::bench
