#include "tests/fuzz/file_target.h"

namespace tandem {

FuzzTarget MakeFuzzTarget() { return FormatTarget("table"); }

}  // namespace tandem
