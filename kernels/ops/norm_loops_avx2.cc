#define TANDEM_NORM_LOOPS kNormLoopsAvx2
#include "kernels/ops/norm_loops_code.h"
