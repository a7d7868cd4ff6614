// Measures the age of an a_sync trainer's gradients. The age is the number of updates between the
// parameters from which a gradient was computed and the parameters to which the servers apply it.
// An optimizer with momentum converges only at a low age, because asynchrony adds to the configured
// momentum (Mitliagkas et al., "Asynchrony begets momentum", 2016).
#pragma once

#include <cstdint>
#include <string>

#include "common/base/mutex.h"
#include "kernels/graph/optimizer.h"
#include "trainer/ps/async_communicator.h"

namespace tandem::trainer {

// Measures the mean age of gradients, and warns once if the mean age is too high. Thread-safe.
class StaleGradients {
 public:
  static constexpr int kPushes = 100;  // number of pushes over which the mean age is computed
  // Mean age in updates above which the trainer warns. Measured on Fashion-MNIST (mlp, momentum
  // 0.9, learning rate 0.02): age 3 gave the accuracy of sync mode, 0.86. Age 4 gave 0.80, age 7
  // gave 0.63, and age 10 gave 0.16. At the limit the loss of accuracy is clear; one measured job
  // is an exception, because it lost no accuracy.
  static constexpr double kUpdatesMax = 5;

  explicit StaleGradients(const graph::OptimizerSpec& optimizer);

  // Returns a function that calls `exchange` and measures the age of the gradients. `version`:
  // version of the trainer's first parameters. This object must outlive the returned function.
  AsyncCommunicator::Exchange Watch(AsyncCommunicator::Exchange exchange, uint64_t version);
  // Records that the servers applied gradients. The gradients were computed from parameters of
  // version `from`; applying them gave version `to`.
  void Applied(uint64_t from, uint64_t to);
  std::string TakeWarning();  // returns a warning with the remedy, once; "": there is no new
                              // warning

 private:
  const std::string momentum_;  // description of the optimizer's momentum; "": no momentum
  Mutex mu_;
  int pushes_ TD_GUARDED_BY(mu_) = 0;  // number of pushes since the last mean
  double updates_ TD_GUARDED_BY(mu_) = 0;
  bool told_ TD_GUARDED_BY(mu_) = false;
  std::string warning_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
