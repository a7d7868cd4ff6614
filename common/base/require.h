// TD_REQUIRE(condition) checks a precondition that only a bug in Tandem's own code can break. A
// debug or sanitizer build ends the process with file, line and condition. A release build does not
// evaluate the condition. If input from outside can break a condition, use a Status instead
// (common/base/status.h).
#pragma once

#include "common/base/check.h"

#ifdef NDEBUG
#define TD_REQUIRE(condition) \
  do {                        \
    if (false) {              \
      (void)(condition);      \
    }                         \
  } while (false)
#else
#define TD_REQUIRE(condition) CHECK(condition)
#endif
