#define TANDEM_UPDATE_LOOPS kUpdateLoopsAvx2
#include "kernels/ops/cpu/update_loops_code.h"
