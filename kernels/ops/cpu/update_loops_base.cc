#define TANDEM_UPDATE_LOOPS kUpdateLoopsBase
#include "kernels/ops/cpu/update_loops_code.h"
