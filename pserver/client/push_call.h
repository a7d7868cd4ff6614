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
// its contents into new messages.
struct PushCall {
  PushPart part;
  std::shared_ptr<PullPart> pull;  // pull in the same message; null: no pull
  PsClient::DoneVersion done;
  Time deadline = {};
  int attempts = 0;
  // The group of the messages of the same push; null: this message does not depend on other
  // messages.
  std::shared_ptr<PushGroup> group = nullptr;
  // Result of IsStale when the message was sent. true: a rejection is final. false: after the
  // rejection, the server may have accepted a delayed copy of the same bytes, so the client sends
  // the push again under the same number.
  bool stale = false;
  bool gone = false;  // true: the server has left the job, and cannot be asked for its map
};

}  // namespace tandem::ps
