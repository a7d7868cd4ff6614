// The order of communication in a step that tables on pservers and reductions among the trainers
// share, where ranks that are lost come again (trainer/modes/hybrid_mode.cc).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/exec/comm.h"

namespace tandem::trainer {

// Carries communication on to another handler, but the last reduction of each step only once the
// last push of rows has ended well: so when it ends anywhere, every rank's rows are taken. After a
// failure it begins no last reduction, and fails one that waits, until Reset.
class PushBeforeReduceComm final : public CommHandler {
 public:
  // `next` must outlive this.
  explicit PushBeforeReduceComm(CommHandler& next) : next_(next) {}

  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override TD_EXCLUDES(mu_);
  Duration timeout() const override { return next_.timeout(); }

  // Behind a step that was broken off, and all of its communication.
  void Reset() TD_EXCLUDES(mu_);

 private:
  // Of one node: looked at, before the plan's own is completed.
  class Watched final : public CommDone {
   public:
    Watched(PushBeforeReduceComm* owner, int index) : owner_(owner), index_(index) {}
    CommDone* For(CommDone* done) {
      done_ = done;
      return this;
    }
    void Complete(Status status) override {
      owner_->Ended(index_, status);
      done_->Complete(std::move(status));
    }

   private:
    PushBeforeReduceComm* const owner_;
    const int index_;
    CommDone* done_ = nullptr;
  };
  struct Held {
    int64_t step;
    CommDone* done;
  };

  void Ended(int index, const Status& status) TD_EXCLUDES(mu_);

  CommHandler& next_;
  std::vector<std::unique_ptr<Watched>> watched_;  // by number of node
  int last_push_ = -1, last_reduction_ = -1;
  Mutex mu_;
  bool pushed_ TD_GUARDED_BY(mu_) = false;  // in this step
  Status broken_ TD_GUARDED_BY(mu_);        // how the first node failed
  std::optional<Held> held_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
