#include "tests/fuzz/file_target.h"

namespace tandem {

FuzzTarget MakeFuzzTarget() { return FormatTarget("npz"); }

}  // namespace tandem
