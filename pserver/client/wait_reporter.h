// Tells the servers about a client that waits, and the client about servers that do not reply.
#pragma once

#include <atomic>

#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/placement.h"
#include "pserver/client/silence_watch.h"

namespace tandem::ps {

// While a call waits, exchanges bucket maps with all servers once a second. A restarted server may
// need retransmitted pushes. It may also not know the step of this trainer, and then block the
// trainers for which the call waits at another server. Or the server gave everything away and
// stopped, and the call would wait for it.
//
// Thread-safe, except Enable. The arguments of the constructor must outlive this.
class WaitReporter {
 public:
  WaitReporter(PsChannel& channel, Placement& placement, SilenceWatch& silence, bool sync)
      : channel_(channel), placement_(placement), silence_(silence), sync_(sync) {}

  // The job needs the reports. Called by Configure.
  void Enable() { enabled_ = true; }
  bool enabled() const { return enabled_; }
  // A call, or all pushes that wait for room, begin or end to wait.
  void Begin();
  void End();
  // Ends all reports.
  void Stop() { stopped_ = true; }

 private:
  void ReportLater();
  void Report();

  PsChannel& channel_;
  Placement& placement_;
  SilenceWatch& silence_;
  const bool sync_;
  bool enabled_ = false;
  std::atomic<int> waiting_{0};
  std::atomic<bool> reporting_{false}, stopped_{false};
};

}  // namespace tandem::ps
