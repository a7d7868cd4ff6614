#define TANDEM_NORM_LOOPS kNormLoopsBase
#include "kernels/ops/norm/norm_loops_code.h"
