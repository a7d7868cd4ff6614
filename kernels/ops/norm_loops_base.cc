#define TANDEM_NORM_LOOPS kNormLoopsBase
#include "kernels/ops/norm_loops_code.h"
