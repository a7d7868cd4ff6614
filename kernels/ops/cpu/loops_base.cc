#define TANDEM_LOOPS kLoopsBase
#define TANDEM_LANES 4
#define TANDEM_ISA "base"
#include "kernels/ops/cpu/loops_code.h"
