// CHECK macros for bugs of Tandem itself, and LOG macros for log lines. A failure with an outside
// cause is a Status instead (common/base/status.h).
#pragma once

#include <glog/logging.h>
