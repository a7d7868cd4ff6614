#define TANDEM_LOOPS kHalfLoopsBase
#include "kernels/ops/half_loops_code.h"
