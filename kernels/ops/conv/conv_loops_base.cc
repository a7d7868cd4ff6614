#define TANDEM_CONV_LOOPS kConvLoopsBase
#define TANDEM_LANES 4
#include "kernels/ops/conv/conv_loops_code.h"
