// CHECK, CHECK_EQ, ... and LOG: for bugs of Tandem itself and for log lines. Failures with an
// outside cause are a Status (common/base/status.h).
#pragma once

#include <glog/logging.h>
