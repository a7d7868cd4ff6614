// The processor's handling of floats that are too small for the normal format (denormals).
#pragma once

namespace tandem {

// Makes numbers below 1.2e-38 zero in this thread and in all threads that it starts later. Programs
// call it first in main, so that all threads and all programs of a job compute the same bits.
// Reason: the moments of an optimizer decay into such numbers and stay there after the gradients
// have become zero. The processor needs about a hundred cycles for each: they took half of the time
// of LeNet's Adam. No effect on processors other than x86.
void FlushDenormals();

}  // namespace tandem
