#define TANDEM_MATH_LOOPS kMathLoopsBase
#include "kernels/ops/cpu/math_loops_code.h"
