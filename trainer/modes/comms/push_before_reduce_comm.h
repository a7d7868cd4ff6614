// Orders the communication of a step that uses both pserver tables and reductions among trainers,
// if lost ranks can return (trainer/modes/hybrid_mode.cc).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/exec/comm.h"

namespace tandem::trainer {

// Forwards communication to another handler. Delays the last reduction of each step until this
// rank's last push of rows has succeeded. When this reduction ends on any rank, the servers
// therefore have the rows of all ranks. After a failure of a node, the last reduction also fails
// until the caller calls Reset.
class PushBeforeReduceComm final : public exec::CommHandler {
 public:
  // `next`: executes the communication; must outlive this object.
  explicit PushBeforeReduceComm(exec::CommHandler& next) : next_(next) {}

  StatusOr<int> Register(const exec::CommNode& node) override;
  void Start(int index, int64_t step, exec::CommDone* done) override TD_EXCLUDES(mu_);
  Duration timeout() const override { return next_.timeout(); }

  // Prepares for the repetition of a step. The caller must call Reset after an aborted step, when
  // all communication of the step has ended.
  void Reset() TD_EXCLUDES(mu_);

 private:
  // Records that a node has completed, and then completes the plan's CommDone.
  class Watched final : public exec::CommDone {
   public:
    Watched(PushBeforeReduceComm* owner, int index) : owner_(owner), index_(index) {}
    exec::CommDone* For(exec::CommDone* done) {
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
    exec::CommDone* done_ = nullptr;
  };
  struct Held {
    int64_t step;
    exec::CommDone* done;
  };

  void Ended(int index, const Status& status) TD_EXCLUDES(mu_);

  exec::CommHandler& next_;
  std::vector<std::unique_ptr<Watched>> watched_;  // one object per node, by the index of the node
  int last_push_ = -1, last_reduction_ = -1;
  Mutex mu_;
  bool pushed_ TD_GUARDED_BY(mu_) = false;  // this step's last push of rows has succeeded
  Status broken_ TD_GUARDED_BY(mu_);  // error of the first failed node; OK: no node has failed
  std::optional<Held> held_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
