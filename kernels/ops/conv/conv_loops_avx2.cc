#define TANDEM_CONV_LOOPS kConvLoopsAvx2
#define TANDEM_LANES 8
#include "kernels/ops/conv/conv_loops_code.h"
