// How old the gradients of an a_sync trainer are when the servers apply them. The age is the number
// of updates between the parameters that a gradient was computed from and those it is applied to.
// An optimizer with momentum bears little of it: asynchrony adds momentum to what is configured
// (Mitliagkas et al., "Asynchrony begets momentum", 2016).
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
  static constexpr int kPushes = 100;  // that a mean is taken of
  // Mean age that momentum bears. On Fashion-MNIST (mlp, momentum 0.9, learning rate 0.02)
  // gradients of age 3 gave the accuracy of sync mode, 0.86; age 4 gave 0.80, age 7 0.63, age 10
  // 0.16.
  static constexpr double kUpdatesMax = 5;

  explicit StaleGradients(const OptimizerSpec& optimizer);

  // The same exchange, which is measured. `version`: of the trainer's first parameters. This must
  // outlive it.
  AsyncCommunicator::Exchange Watch(AsyncCommunicator::Exchange exchange, uint64_t version);
  // Gradients of parameters of version `from` made version `to`.
  void Applied(uint64_t from, uint64_t to);
  // A warning that names the mean age and the cure, once; "" where there is nothing to say.
  std::string TakeWarning();

 private:
  const std::string momentum_;  // in words; "": the optimizer has none
  Mutex mu_;
  int pushes_ TD_GUARDED_BY(mu_) = 0;  // since the last mean
  double updates_ TD_GUARDED_BY(mu_) = 0;
  bool told_ TD_GUARDED_BY(mu_) = false;
  std::string warning_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
