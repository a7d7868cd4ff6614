#define TANDEM_MATH_LOOPS kMathLoopsAvx512
#include "kernels/ops/cpu/math_loops_code.h"
