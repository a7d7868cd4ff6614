// Counts what others still hold.
#pragma once

#include <memory>

#include "common/base/mutex.h"

namespace tandem {

// Thread-safe. Outlives whoever made it, as long as something is held.
class WaitGroup {
 public:
  // Something that lowers the count again when its last copy goes away.
  static std::shared_ptr<const void> Take(const std::shared_ptr<WaitGroup>& leases);
  // False when `deadline` passed first.
  bool WaitForNone(Time deadline);

 private:
  void GiveBack();
  Mutex mu_;
  CondVar none_;
  int count_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem
