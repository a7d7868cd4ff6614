// Measures the age of an a_sync trainer's gradients. The age is the number of updates between the
// parameters from which a gradient was computed and those to which it is applied.
// An optimizer with momentum converges only at a low age: asynchrony adds momentum to the
// configured one (Mitliagkas et al., "Asynchrony begets momentum", 2016).
#pragma once

#include <cstdint>
#include <string>

#include "common/base/mutex.h"
#include "kernels/graph/optimizer.h"
#include "trainer/ps/async_communicator.h"

namespace tandem::trainer {

// Thread-safe.
class StaleGradients {
 public:
  static constexpr int kPushes = 100;  // pushes per mean
  // Mean age above which a warning is given. On Fashion-MNIST (mlp, momentum 0.9, learning rate
  // 0.02) age 3 gave the accuracy of sync mode, 0.86; age 4 gave 0.80, age 7 0.63, age 10 0.16. The
  // bound is where the loss was clear: a job of that age without loss was measured too.
  static constexpr double kUpdatesMax = 5;

  explicit StaleGradients(const OptimizerSpec& optimizer);

  // Returns the same exchange with measurement. `version` is that of the trainer's first
  // parameters. This object must outlive the result.
  AsyncCommunicator::Exchange Watch(AsyncCommunicator::Exchange exchange, uint64_t version);
  // Records that gradients of parameters of version `from` were applied and gave version `to`.
  void Applied(uint64_t from, uint64_t to);
  // Returns, once, a warning with the mean age and the remedy; "": none.
  std::string TakeWarning();

 private:
  const std::string momentum_;  // description of the momentum; "": the optimizer has none
  Mutex mu_;
  int pushes_ TD_GUARDED_BY(mu_) = 0;  // since the last mean
  double updates_ TD_GUARDED_BY(mu_) = 0;
  bool told_ TD_GUARDED_BY(mu_) = false;
  std::string warning_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
