#define TANDEM_LOOPS kLoopsBase
#define TANDEM_ISA "base"
#include "kernels/ops/loops_code.h"
