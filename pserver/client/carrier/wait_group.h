// Counts outstanding references and waits until there are none.
#pragma once

#include <memory>

#include "common/base/mutex.h"

namespace tandem::ps {

// Thread-safe. Stays alive while there are references, even after its creator is destroyed.
class WaitGroup {
 public:
  // Returns a reference. The count decreases when its last copy is destroyed.
  static std::shared_ptr<const void> Take(const std::shared_ptr<WaitGroup>& leases);
  // Returns false if `deadline` passes first.
  bool WaitForNone(Time deadline);

 private:
  void GiveBack();
  Mutex mu_;
  CondVar none_;
  int count_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::ps
