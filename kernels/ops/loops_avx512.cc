#define TANDEM_LOOPS kLoopsAvx512
#define TANDEM_ISA "avx512"
#include "kernels/ops/loops_code.h"
