#define TANDEM_CONV_LOOPS kConvLoopsBase
#define TANDEM_LANES 4
#include "kernels/ops/cpu/conv_loops_code.h"
