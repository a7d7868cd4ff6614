// The connection of a member of a server to tandemrun, which decides which member is the primary.
#pragma once

#include <functional>
#include <thread>

#include "common/launcher/member_messages.h"
#include "common/os/fd.h"

namespace tandem::pserver {

// Receives the commands of tandemrun on a separate thread. Thread-safe.
class MemberChannel {
 public:
  using Handler = std::function<void(const MemberCommand&, MemberChannel&)>;
  // Calls `handle` for each command, on the thread of this object. `socket`: this process's end of
  // a socket pair (member_messages.h).
  MemberChannel(Fd socket, Handler handle);
  // Ends the thread. Waits for a running call of `handle`.
  ~MemberChannel();

  // Sends a report. A report is lost if tandemrun has ended.
  void Send(const MemberReport& report);

 private:
  void Loop();

  const Fd socket_;
  const Handler handle_;
  std::thread thread_;
};

}  // namespace tandem::pserver
