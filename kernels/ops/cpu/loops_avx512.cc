#define TANDEM_LOOPS kLoopsAvx512
#define TANDEM_LANES 16
#define TANDEM_ISA "avx512"
#include "kernels/ops/cpu/loops_code.h"
