// The history of a server's state, by which a reader that comes back learns whether its position is
// a part of this state. A position is a term (storage/checkpoint_files.h) and the number of a log
// entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/storage/checkpoint_files.h"

namespace tandem::pserver {

// Thread-safe.
class StateHistory {
 public:
  virtual ~StateHistory() = default;
  // Returns the term of the state. UNAVAILABLE: the state is being replaced.
  virtual StatusOr<LogTerm> CurrentTerm() const = 0;
  // Returns whether the state has all entries up to `number` of the log that `term` identifies, or
  // will have them.
  virtual bool Contains(const LogTerm& term, uint64_t number) const = 0;
};

// The history of a replica's state since the replica has listened. A replica follows a primary, so
// all entries of its term will arrive.
class ReplicaHistory final : public StateHistory {
 public:
  StatusOr<LogTerm> CurrentTerm() const override;
  bool Contains(const LogTerm& term, uint64_t number) const override;

  // Reports that the state has all entries of `term` up to `last`.
  void OnStep(const LogTerm& term, uint64_t last);
  void Forget();  // the state is replaced

 private:
  // Starts and promotions of the primary after which a reader may still continue here.
  static constexpr size_t kTermsMax = 64;

  struct Part {
    LogTerm term;
    uint64_t last = 0;
  };
  mutable Mutex mu_;
  std::optional<Part> now_ TD_GUARDED_BY(mu_);
  // The terms before, the newest last, and their last entries here; at most kTermsMax.
  std::deque<Part> before_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::pserver
