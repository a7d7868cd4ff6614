// CHECK, CHECK_EQ, ... and LOG: for our own bugs and for log lines. What the outside can cause is a
// Status (common/base/status.h).
#pragma once

#include <glog/logging.h>
