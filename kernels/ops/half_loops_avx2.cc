#define TANDEM_LOOPS kHalfLoopsAvx2
#include "kernels/ops/half_loops_code.h"
