#define TANDEM_NORM_LOOPS kNormLoopsAvx512
#include "kernels/ops/norm/norm_loops_code.h"
