#define TANDEM_LOOPS kHalfLoopsAvx512
#include "kernels/ops/half_loops_code.h"
