#include "common/os/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tandem {

void FlushDenormals() {
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

}  // namespace tandem
