#define TANDEM_LOOPS kHalfLoopsBase
#include "kernels/ops/cpu/half_loops_code.h"
