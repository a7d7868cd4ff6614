#define TANDEM_NORM_LOOPS kNormLoopsAvx2
#include "kernels/ops/cpu/norm_loops_code.h"
