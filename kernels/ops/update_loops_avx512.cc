#define TANDEM_UPDATE_LOOPS kUpdateLoopsAvx512
#include "kernels/ops/update_loops_code.h"
