// The parameters of a trainer in geo mode. The trainer updates its parameters locally and exchanges
// differences with the servers. Let s be the servers' parameters. The trainer adds delta = (local -
// base) / trainers to s. Then the trainer pulls s and sets local += s - (base + delta) and base =
// s. Source: Paddle 1.6's GeoSgdCommunicator.
#pragma once

#include <vector>

#include "pserver/client/client.h"
#include "trainer/ps/async_communicator.h"

namespace tandem::trainer {

// An exchange has three calls: Differences, a pull of the servers' values into Pulled, Take.
// Exchanges must not overlap. Not thread-safe.
class GeoParameters {
 public:
  GeoParameters() = default;
  // `local`: the trainer's parameters, which also are the first base. The memory of `local` must
  // outlive this object.
  GeoParameters(std::vector<ps::PsTensor> local, int trainers);

  // Returns the differences to add to the servers' parameters. The returned memory is valid until
  // the next call.
  std::vector<ps::PsConstTensor> Differences();
  // Returns the memory into which the servers' parameters must be pulled.
  std::vector<ps::PsTensor> Pulled();
  // Adds the changes that other trainers made to the local parameters. The pulled parameters
  // contain these changes.
  void Take();

 private:
  std::vector<ps::PsTensor> local_;
  float share_ = 1;  // weight of a trainer's differences: 1 / number of trainers
  ValueSets base_, delta_, pulled_;
};

}  // namespace tandem::trainer
