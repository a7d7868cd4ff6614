// The parameters of a trainer that steps alone and exchanges differences with the servers (geo).
// With the parameters s of the servers: delta = (local - base) / trainers is added to s, then
// local += s - (base + delta), base = s. Source: Paddle 1.6's GeoSgdCommunicator.
#pragma once

#include <vector>

#include "pserver/client/client.h"
#include "trainer/ps/async_communicator.h"

namespace tandem {

// An exchange is Differences, then the servers' values into Pulled, then Take; none overlap.
class GeoParameters {
 public:
  GeoParameters() = default;
  // `local`: the trainer's parameters, of which base is what they hold now. Not owned; must outlive
  // this.
  GeoParameters(std::vector<PsTensor> local, int trainers);

  // What to add to the servers' parameters: there until the next call.
  std::vector<PsConstTensor> Differences();
  // Where the servers' parameters go.
  std::vector<PsTensor> Pulled();
  // They are there: what others have changed goes into the trainer's.
  void Take();

 private:
  std::vector<PsTensor> local_;
  float share_ = 1;  // of each trainer
  ValueSets base_, delta_, pulled_;
};

}  // namespace tandem
