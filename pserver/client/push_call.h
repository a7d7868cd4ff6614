// One message of a push, from the first attempt to its end.
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/clock.h"
#include "pserver/client/client.h"
#include "pserver/client/pushes/push_part.h"

namespace tandem::ps {

struct PullPart;
class PushGroup;

// A message of a push. The object exists until the server accepts the message or the client splits
// its contents again.
struct PushCall {
  PushPart part;
  std::shared_ptr<PullPart> pull;  // pull in the same message; null: none
  PsClient::DoneVersion done;
  Time deadline = {};
  int attempts = 0;
  // Messages of the same push; null: this message depends on no other.
  std::shared_ptr<PushGroup> group = nullptr;
  // Result of IsStale when the message was sent. true: a rejection is final. false: the server may
  // have accepted a delayed copy of the same bytes after the rejection. The push is then sent again
  // under the same number.
  bool stale = false;
};

}  // namespace tandem::ps
