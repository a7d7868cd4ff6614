#define TANDEM_UPDATE_LOOPS kUpdateLoopsBase
#include "kernels/ops/update_loops_code.h"
