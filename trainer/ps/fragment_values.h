// The parameters of a trainer with local steps in mode pserver (localsgd): decoupled DiLoCo. The
// trainer updates its parameters locally, and pushes the pseudo-gradient of a fragment of them,
// which is base minus local. The servers make a step of the outer optimizer with several
// pseudo-gradients (operator buffered_momentum). Sources: Douillard et al., "Streaming DiLoCo with
// overlapping communication", 2025 (arXiv 2501.18512); "Decoupled DiLoCo", 2026 (arXiv 2604.21428).
#pragma once

#include <vector>

#include "pserver/client/client.h"
#include "trainer/ps/async_communicator.h"

namespace tandem::trainer {

// The parameters of one fragment. Calls are in turns: PseudoGradients, then a pull of the servers'
// values into Pulled, then Take. Not thread-safe.
class FragmentValues {
 public:
  // `local`: the trainer's parameters, which have the servers' values now. Their memory must
  // outlive this object.
  explicit FragmentValues(std::vector<ps::PsTensor> local);

  // Returns how far the parameters moved since the last call or the last new values of the servers,
  // with the sign of a gradient. The returned memory is valid until the next call.
  std::vector<ps::PsConstTensor> PseudoGradients();
  // Returns the memory into which the servers' values must be pulled.
  std::vector<ps::PsTensor> Pulled();
  // Takes each value of the servers that has changed since the last call, and adds how far local
  // moved since the last pseudo-gradient. A value that has not changed lacks the last
  // pseudo-gradient, so the trainer continues from its own value there: not all servers of a
  // fragment have made the step yet. A move that is not finite is dropped. Returns whether all
  // parameters have changed values.
  bool Take();
  // Sets local to the servers' values.
  void TakeAll();

 private:
  std::vector<ps::PsTensor> local_;
  ValueSets base_, delta_, known_, pulled_;  // known: the servers' values of the last Take
};

}  // namespace tandem::trainer
