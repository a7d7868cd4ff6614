#include "pserver/client/wait_reporter.h"

#include <set>

#include "common/base/require.h"

namespace tandem::ps {
namespace {

constexpr Duration kReportPause = std::chrono::seconds(1);

}  // namespace

void WaitReporter::Begin() {
  TD_REQUIRE(enabled_);
  ++waiting_;
  ReportLater();
}

void WaitReporter::End() {
  const int before = waiting_.fetch_sub(1);
  TD_REQUIRE(before > 0);
}

void WaitReporter::ReportLater() {
  if (stopped_ || reporting_.exchange(true)) return;
  channel_.After(kReportPause, [this] {
    const bool waits = waiting_ > 0;
    if (waits) {
      for (const PsServer* server : placement_.Servers()) {
        silence_.Start(static_cast<size_t>(server->index), channel_.Now());
      }
    } else {
      silence_.EndAll();
    }
    if (waits && !stopped_) Report();
    reporting_ = false;
    if (waiting_ > 0) ReportLater();
  });
}

void WaitReporter::Report() {
  std::set<size_t> all;
  for (const PsServer* server : placement_.Servers()) {
    all.insert(static_cast<size_t>(server->index));
  }
  placement_.Exchange(all, [this] {
    if (sync_) return;  // in sync mode, a server runs until no trainer needs it
    for (const PsServer* server : placement_.Servers()) {
      if (!placement_.OwnsAny(*server)) channel_.Abandon(server->index);
    }
  });
}

}  // namespace tandem::ps
