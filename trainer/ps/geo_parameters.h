// The parameters of a trainer that steps alone and exchanges differences with the servers (geo).
// Let s be the servers' parameters. The trainer adds delta = (local - base) / trainers to s. Then
// local += s - (base + delta) and base = s. Source: Paddle 1.6's GeoSgdCommunicator.
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
  // `local`: the trainer's parameters; base starts with their current values. Not owned; must
  // outlive this object.
  GeoParameters(std::vector<ps::PsTensor> local, int trainers);

  // The differences to add to the servers' parameters; valid until the next call.
  std::vector<ps::PsConstTensor> Differences();
  // Memory for the servers' parameters.
  std::vector<ps::PsTensor> Pulled();
  // Applies the pulled parameters: adds the changes of other trainers to the local ones.
  void Take();

 private:
  std::vector<ps::PsTensor> local_;
  float share_ = 1;  // weight of each trainer
  ValueSets base_, delta_, pulled_;
};

}  // namespace tandem::trainer
