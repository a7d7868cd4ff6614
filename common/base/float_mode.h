// How the processor treats numbers that are too small for a normal float.
#pragma once

namespace tandem {

// From here on numbers below 1.2e-38 are zero in this thread and in those that it starts: programs
// call it first of all, so that all their threads, and all programs of a job, compute the same
// bits. Moments of an optimizer whose gradients have become zero decay into such numbers and stay
// there, and the processor works on each of them for about a hundred cycles: half of LeNet's Adam
// was that. Does nothing on processors other than x86.
void FlushDenormals();

}  // namespace tandem
