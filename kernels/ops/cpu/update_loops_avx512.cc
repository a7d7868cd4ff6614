#define TANDEM_UPDATE_LOOPS kUpdateLoopsAvx512
#include "kernels/ops/cpu/update_loops_code.h"
