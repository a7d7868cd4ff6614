// Waits of C++ code that Ctrl-C ends.
#pragma once

#include <pybind11/pybind11.h>

namespace tandem::python {

// Runs the signal handlers of Python, on the main thread of the process; does nothing on other
// threads. Returns whether a handler raised an exception, such as KeyboardInterrupt. The exception
// stays set on this thread. The caller must not hold the GIL.
bool InterruptedBySignal();

// Runs `call`, which may wait and returns a Status or a StatusOr, without the GIL. `call` must end
// soon after InterruptedBySignal returned true. Then this function throws the exception of Python.
// Otherwise it returns the result of `call`, with its errors.
template <typename Call>
auto RunInterruptibly(const Call& call) {
  auto result = [&call] {
    const pybind11::gil_scoped_release release;
    return call();
  }();
  if (PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
  return result;
}

}  // namespace tandem::python
