// Tells the servers that calls of a client wait, and finds servers that do not reply.
#pragma once

#include <atomic>

#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/placement.h"
#include "pserver/client/silence_watch.h"

namespace tandem::ps {

// Exchanges bucket maps with all servers once a second while a call waits. The exchange has three
// purposes. A restarted server may need retransmitted pushes. A restarted server may not know the
// step of this trainer, and may therefore block the trainers for which the call waits. A server for
// which a call waits may have given all its buckets away and stopped.
//
// Thread-safe, except Enable. The arguments of the constructor must outlive this object.
class WaitReporter {
 public:
  WaitReporter(PsChannel& channel, Placement& placement, SilenceWatch& silence, bool sync)
      : channel_(channel), placement_(placement), silence_(silence), sync_(sync) {}

  // Enables the exchanges. Configure calls Enable if the job needs the exchanges.
  void Enable() { enabled_ = true; }
  bool enabled() const { return enabled_; }
  // Begin: a call begins to wait; End: the call ends to wait. All pushes that wait for room in the
  // retransmit buffer count as one call.
  void Begin();
  void End();
  // Permanently ends all exchanges.
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
