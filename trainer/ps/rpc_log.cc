#include "trainer/ps/rpc_log.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/require.h"

namespace tandem::trainer {

void RpcLog::Add(const ps::PsCall& call) {
  TD_REQUIRE(call.begin <= call.end);
  MutexLock lock(mu_);
  ++made_;
  sent_ += call.sent;
  received_ += call.received;
  if (keep_ && calls_.size() < kCallsMax) calls_.push_back(call);
}

void RpcLog::AddBytes(PsCounts* counts) const {
  MutexLock lock(mu_);
  counts->calls = static_cast<double>(made_);
  counts->sent_bytes = static_cast<double>(sent_);
  counts->received_bytes = static_cast<double>(received_);
}

std::vector<ps::PsCall> RpcLog::Between(Time begin, Time end) const {
  MutexLock lock(mu_);
  std::vector<ps::PsCall> calls;
  for (const ps::PsCall& call : calls_) {
    if (call.begin >= begin && call.begin < end) calls.push_back(call);
  }
  return calls;
}

std::string RpcTable(const std::vector<ps::PsCall>& calls) {
  struct Row {
    int64_t calls = 0, failed = 0;
    double total = 0, min = 1e300, max = 0, sent = 0, received = 0;
  };
  std::map<std::pair<std::string, int>, Row> rows;
  for (const ps::PsCall& call : calls) {
    Row& row = rows[{call.method(), call.server}];
    const double ms = Seconds(call.end - call.begin) * 1e3;
    ++row.calls;
    row.failed += call.ok ? 0 : 1;
    row.total += ms;
    row.min = std::min(row.min, ms);
    row.max = std::max(row.max, ms);
    row.sent += static_cast<double>(call.sent);
    row.received += static_cast<double>(call.received);
  }
  if (rows.empty()) return "";
  std::string text =
      absl::StrFormat("%-12s %7s %7s %7s %10s %9s %9s %9s %12s %12s\n", "Call", "Server", "Calls",
                      "Failed", "Total", "Min.", "Max.", "Ave.", "Bytes out", "Bytes in");
  for (const auto& [key, row] : rows) {
    const auto n = static_cast<double>(row.calls);
    absl::StrAppendFormat(&text, "%-12s %7d %7d %7d %10.3f %9.3f %9.3f %9.3f %12.0f %12.0f\n",
                          key.first, key.second, row.calls, row.failed, row.total, row.min, row.max,
                          row.total / n, row.sent / n, row.received / n);
  }
  return text;
}

}  // namespace tandem::trainer
