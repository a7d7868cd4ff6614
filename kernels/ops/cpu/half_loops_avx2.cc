#define TANDEM_LOOPS kHalfLoopsAvx2
#include "kernels/ops/cpu/half_loops_code.h"
