#define TANDEM_CONV_LOOPS kConvLoopsAvx512
#define TANDEM_LANES 16
#include "kernels/ops/conv/conv_loops_code.h"
