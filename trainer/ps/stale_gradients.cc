#include "trainer/ps/stale_gradients.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace tandem::trainer {
namespace {

double Number(const graph::OptimizerSpec& optimizer, const char* name, double otherwise) {
  const auto it = optimizer.attrs.find(name);
  if (it == optimizer.attrs.end()) return otherwise;
  const double* const value = std::get_if<double>(&it->second);
  return value == nullptr ? otherwise : *value;
}

// Returns the optimizer type and its momentum as text for a message; "": the optimizer has no
// momentum. Momentum is the share of the last update that the next update repeats.
std::string MomentumOf(const graph::OptimizerSpec& optimizer) {
  const std::string& type = optimizer.type;
  if (type == "momentum" || type == "lars_momentum" || type == "rmsprop") {
    const double momentum = Number(optimizer, "mu", type == "rmsprop" ? 0.0 : 0.9);
    return momentum > 0 ? absl::StrFormat("%s with momentum %g", type, momentum) : "";
  }
  if (type == "adam" || type == "adamw" || type == "adamax" || type == "lamb") {
    const double beta1 = Number(optimizer, "beta1", 0.9);
    return beta1 > 0 ? absl::StrFormat("%s with beta1 %g", type, beta1) : "";
  }
  return "";
}

}  // namespace

StaleGradients::StaleGradients(const graph::OptimizerSpec& optimizer)
    : momentum_(MomentumOf(optimizer)) {}

AsyncCommunicator::Exchange StaleGradients::Watch(AsyncCommunicator::Exchange exchange,
                                                  uint64_t version) {
  return [this, exchange = std::move(exchange), version](const GradientSet* push,
                                                         ValueSets* pull) -> StatusOr<uint64_t> {
    TD_ASSIGN_OR_RETURN(const uint64_t pulled, exchange(push, pull));
    if (push != nullptr && pull != nullptr) Applied(std::max(version, push->version), pulled);
    return pulled;
  };
}

void StaleGradients::Applied(uint64_t from, uint64_t to) {
  MutexLock lock(mu_);
  updates_ += static_cast<double>(to > from ? to - from - 1 : 0);
  if (++pushes_ < kPushes) return;
  const double mean = std::exchange(updates_, 0) / std::exchange(pushes_, 0);
  VLOG(1) << "gradients are " << mean << " updates old when the servers apply them";
  if (told_ || momentum_.empty() || mean <= kUpdatesMax) return;
  told_ = true;
  warning_ = absl::StrFormat(
      "warning: gradients are %.1f updates old when the servers apply them, above %g with %s: the "
      "job may not converge [TD4022]; hint: set --a_sync_configs.max_staleness=4",
      mean, kUpdatesMax, momentum_);
}

std::string StaleGradients::TakeWarning() {
  MutexLock lock(mu_);
  return std::exchange(warning_, "");
}

}  // namespace tandem::trainer
