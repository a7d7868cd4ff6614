#define TANDEM_NORM_LOOPS kNormLoopsAvx512
#include "kernels/ops/cpu/norm_loops_code.h"
