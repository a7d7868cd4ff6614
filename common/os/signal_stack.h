// Alternate stacks for signal handlers. Matrix products of oneDNN use the stack pointer for data in
// the heap. A handler without an alternate stack that interrupts such a product overwrites the
// heap.
#pragma once

namespace tandem {

// Says that the process has a signal handler that may interrupt any thread and that runs on
// alternate stacks (SA_ONSTACK). Thread-safe. There is no way back.
void RequireSignalStacks();
// Returns whether RequireSignalStacks was called. Thread-safe.
bool SignalStacksRequired();

// Gives the calling thread an alternate stack of 64 KiB until the thread ends. Does nothing if the
// thread has such a stack. Thread-safe.
void UseSignalStack();

}  // namespace tandem
