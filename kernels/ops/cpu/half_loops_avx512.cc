#define TANDEM_LOOPS kHalfLoopsAvx512
#include "kernels/ops/cpu/half_loops_code.h"
