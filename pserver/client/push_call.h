// One message of a push on its way to a server.
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/clock.h"
#include "pserver/client/client.h"
#include "pserver/client/push_part.h"

namespace tandem::ps {

struct PullPart;
class PushGroup;

// Exists until the server accepts the message or the client splits its contents again.
struct PushCall {
  PushPart part;
  std::shared_ptr<PullPart> pull;  // may be null
  PsClient::DoneVersion done;
  Time deadline = {};
  int attempts = 0;
  std::shared_ptr<PushGroup> group = nullptr;  // may be null
  // IsStale at the time of sending. If set, a rejection is final. Otherwise a delayed copy of the
  // same bytes may have been accepted after the rejection. The push is then sent again under the
  // same number.
  bool stale = false;
};

}  // namespace tandem::ps
