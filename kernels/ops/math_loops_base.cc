#define TANDEM_MATH_LOOPS kMathLoopsBase
#include "kernels/ops/math_loops_code.h"
