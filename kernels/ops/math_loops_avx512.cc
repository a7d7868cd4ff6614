#define TANDEM_MATH_LOOPS kMathLoopsAvx512
#include "kernels/ops/math_loops_code.h"
