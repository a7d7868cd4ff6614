#define TANDEM_NORM_LOOPS kNormLoopsAvx2
#include "kernels/ops/norm/norm_loops_code.h"
