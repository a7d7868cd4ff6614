#define TANDEM_MATH_LOOPS kMathLoopsAvx2
#include "kernels/ops/cpu/math_loops_code.h"
