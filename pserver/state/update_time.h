// The time of an update, which replies to pushes and pulls contain.
#pragma once

#include "common/base/clock.h"

namespace tandem::pserver {

// Times at which the last change of the parameters began and ended; Time(): there was no change.
struct UpdateTime {
  Time begin, end;
};

}  // namespace tandem::pserver
