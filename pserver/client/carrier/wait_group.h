// Counts references and waits until all references are destroyed.
#pragma once

#include <memory>

#include "common/base/mutex.h"

namespace tandem::ps {

// Counts references. Thread-safe. A reference keeps the object alive, even after its creator is
// destroyed.
class WaitGroup {
 public:
  // Returns a reference. The count decreases when the last copy of the reference is destroyed.
  static std::shared_ptr<const void> Take(const std::shared_ptr<WaitGroup>& leases);
  // Waits until there are no references. Returns false if `deadline` passes before.
  bool WaitForNone(Time deadline);

 private:
  void GiveBack();
  Mutex mu_;
  CondVar none_;
  int count_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::ps
