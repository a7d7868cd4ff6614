// Tells the servers that a client waits, and tells the client which servers do not reply.
#pragma once

#include <atomic>

#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/placement.h"
#include "pserver/client/silence_watch.h"

namespace tandem::ps {

// Exchanges bucket maps with all servers once a second while a call waits. The exchange has three
// reasons. A restarted server may need retransmitted pushes. A restarted server may not know the
// step of this trainer, and may therefore block the trainers for which the call waits. A server may
// have given all its buckets away and stopped while a call waits for it.
//
// Thread-safe, except Enable. The arguments of the constructor must outlive this object.
class WaitReporter {
 public:
  WaitReporter(PsChannel& channel, Placement& placement, SilenceWatch& silence, bool sync)
      : channel_(channel), placement_(placement), silence_(silence), sync_(sync) {}

  // Switches the reports on. Configure calls this function if the job needs reports.
  void Enable() { enabled_ = true; }
  bool enabled() const { return enabled_; }
  // A call begins or ends to wait. All pushes that wait for room in the retransmit buffer count as
  // one call.
  void Begin();
  void End();
  // Ends all reports permanently.
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
