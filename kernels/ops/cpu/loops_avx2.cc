#define TANDEM_LOOPS kLoopsAvx2
#define TANDEM_LANES 8
#define TANDEM_ISA "avx2"
#include "kernels/ops/cpu/loops_code.h"
