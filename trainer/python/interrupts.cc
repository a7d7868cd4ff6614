#include "trainer/python/interrupts.h"

#include <unistd.h>

namespace tandem::python {

bool InterruptedBySignal() {
  // Python runs signal handlers on its main thread alone. Other threads must not acquire the GIL
  // here, because Python ends such a thread while the interpreter exits.
  if (gettid() != getpid()) return false;
  const pybind11::gil_scoped_acquire acquire;
  return PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;
}

}  // namespace tandem::python
