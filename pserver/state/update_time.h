// The time of the newest update, which a server sends in its replies to pushes and pulls.
#pragma once

#include "common/base/clock.h"

namespace tandem::pserver {

// Times at which the newest change of the parameters began and ended; Time(): there was no change.
struct UpdateTime {
  Time begin, end;
};

}  // namespace tandem::pserver
