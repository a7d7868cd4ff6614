// The time of an update, which replies to pushes and pulls contain.
#pragma once

#include "common/base/clock.h"

namespace tandem::pserver {

// Time of the last change of the parameters; Time(): none yet.
struct UpdateTime {
  Time begin, end;
};

}  // namespace tandem::pserver
