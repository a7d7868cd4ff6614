// The exchanges of a trainer with local steps in mode pserver (localsgd). Each fragment of the
// parameters has its own schedule: a push every k_steps steps, and `delay` steps later a pull. If
// the servers have made no step by then, the trainer pulls again after `delay` steps, but at least
// a quarter of k_steps. It waits for no other trainer. See fragment_values.h for the arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "kernels/exec/comm.h"
#include "kernels/graph/distribute/fragments.h"
#include "pserver/client/client.h"
#include "trainer/ps/fragment_values.h"

namespace tandem::trainer {

// Callbacks of the client use the object, so the client must be destroyed first.
class LocalSteps {
 public:
  // `local`: the trainer's parameters, which have the servers' values now. Their memory must
  // outlive this object. `fragments`: the names of the parameters of each fragment. Of `rule` only
  // k_steps and delay count. REQUIRES: rule.delay < rule.k_steps.
  LocalSteps(const graph::FragmentRule& rule,
             const std::vector<std::vector<std::string>>& fragments,
             const std::vector<ps::PsTensor>& local);

  // Makes the exchanges that are due after `step`: starts pushes and pulls, and takes values of the
  // servers. Calls `done` when the trainer may begin the next step, with the first error of any
  // exchange so far. One call at a time, with ascending steps.
  void AfterStep(ps::PsClient& client, int64_t step, exec::CommDone* done);
  // Ends all exchanges, pushes what has not been pushed, and sets the parameters to the servers'
  // values. Blocks; the client's deadlines end the wait. Further calls have no effect, so that the
  // parameters stay those of the last evaluation and checkpoint.
  Status Finish(ps::PsClient& client, int64_t step);

  // The number of pushes, and the number of pulls.
  int64_t pushes() const;
  int64_t pulls() const;

 private:
  enum class Phase : uint8_t { kNone, kPushing, kPushed, kPulling, kPulled };
  struct Fragment {
    FragmentValues values;
    int64_t pending = 0;  // steps since the last push
    int64_t looked = 0;   // the step from which `delay` counts: of the push, or of the last values
    Phase phase = Phase::kNone;
    bool wants_pull = false;  // the pull begins as soon as the push has ended
    bool awaited = false;     // AfterStep or Finish waits for the values
  };

  // The share of a push in the mean: the number of its steps, in units of k_steps.
  float WeightOf(const Fragment& fragment) const;
  void Push(ps::PsClient& client, size_t p, int64_t step);
  void Pull(ps::PsClient& client, size_t p);
  void OnPushed(ps::PsClient& client, size_t p, const Status& status);
  void OnPulled(size_t p, const Status& status);
  // Begins the pulls that are missing, and waits until the values of all fragments are taken.
  Status EndExchanges(ps::PsClient& client);
  // Begins the pull of fragment p now or when its push has ended.
  void WantPull(ps::PsClient& client, size_t p);
  // The servers have made no step since the last pull: plans another one.
  void LookAgain(Fragment& fragment) const;
  // Calls `done` when the values of all `due` fragments have arrived and are taken.
  void Await(const std::vector<size_t>& due, exec::CommDone* done);
  // Takes the values of the awaited fragments if all have arrived or a call failed. Returns what to
  // complete then.
  exec::CommDone* TakeIfArrived(Status* status) TD_REQUIRES(mu_);

  const graph::FragmentRule rule_;
  mutable Mutex mu_;
  std::vector<Fragment> fragments_ TD_GUARDED_BY(mu_);
  exec::CommDone* done_ TD_GUARDED_BY(mu_) = nullptr;  // null: nothing waits
  Status error_ TD_GUARDED_BY(mu_);                    // the first error of a call
  bool ended_ TD_GUARDED_BY(mu_) = false;              // no further steps follow
  int64_t pushes_ TD_GUARDED_BY(mu_) = 0, pulls_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::trainer
