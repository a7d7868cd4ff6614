// TD_REQUIRE(condition) checks a precondition of a function: a promise that only Tandem's own code
// can break. A debug or sanitizer build ends the process with file, line and condition. A release
// build does not evaluate the condition. A condition that input from outside can make false is a
// Status instead (common/base/status.h).
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
