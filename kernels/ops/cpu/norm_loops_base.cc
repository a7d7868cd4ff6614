#define TANDEM_NORM_LOOPS kNormLoopsBase
#include "kernels/ops/cpu/norm_loops_code.h"
