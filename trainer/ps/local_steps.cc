#include "trainer/ps/local_steps.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::trainer {
namespace {

std::vector<ps::PsTensor> Named(const std::vector<std::string>& names,
                                const std::vector<ps::PsTensor>& all) {
  std::vector<ps::PsTensor> found;
  for (const std::string& name : names) {
    const auto at = std::find_if(all.begin(), all.end(),
                                 [&name](const ps::PsTensor& t) { return t.variable == name; });
    CHECK(at != all.end()) << "no parameter " << name;
    found.push_back(*at);
  }
  return found;
}

}  // namespace

LocalSteps::LocalSteps(const graph::FragmentRule& rule,
                       const std::vector<std::vector<std::string>>& fragments,
                       const std::vector<ps::PsTensor>& local)
    : rule_(rule) {
  TD_REQUIRE(rule.k_steps > 0 && rule.delay >= 0 && rule.delay < rule.k_steps);
  for (const std::vector<std::string>& names : fragments) {
    fragments_.push_back({.values = FragmentValues(Named(names, local))});
  }
}

float LocalSteps::WeightOf(const Fragment& fragment) const {
  return static_cast<float>(fragment.pending) / static_cast<float>(rule_.k_steps);
}

void LocalSteps::Push(ps::PsClient& client, size_t p, int64_t step) {
  std::vector<ps::PsConstTensor> gradients;
  float weight = 0;
  {
    MutexLock lock(mu_);
    Fragment& fragment = fragments_[p];
    TD_REQUIRE(fragment.phase == Phase::kNone);
    fragment.phase = Phase::kPushing;
    fragment.looked = step;
    weight = WeightOf(fragment);
    fragment.pending = 0;
    gradients = fragment.values.PseudoGradients();
    ++pushes_;
  }
  client.Push(static_cast<uint64_t>(step), weight, gradients,
              [this, &client, p](const Status& status) { OnPushed(client, p, status); });
}

void LocalSteps::OnPushed(ps::PsClient& client, size_t p, const Status& status) {
  exec::CommDone* done = nullptr;
  bool pull = false;
  Status result;
  {
    MutexLock lock(mu_);
    Fragment& fragment = fragments_[p];
    fragment.phase = Phase::kPushed;
    if (error_.ok()) error_ = status;
    pull = fragment.wants_pull && error_.ok();
    done = TakeIfArrived(&result);
  }
  if (done != nullptr) return done->Complete(result);
  if (pull) Pull(client, p);
}

void LocalSteps::WantPull(ps::PsClient& client, size_t p) {
  {
    MutexLock lock(mu_);
    fragments_[p].wants_pull = true;
    if (fragments_[p].phase != Phase::kPushed) return;
  }
  Pull(client, p);
}

void LocalSteps::Pull(ps::PsClient& client, size_t p) {
  std::vector<ps::PsTensor> pulled;
  {
    MutexLock lock(mu_);
    Fragment& fragment = fragments_[p];
    fragment.phase = Phase::kPulling;
    fragment.wants_pull = false;
    pulled = fragment.values.Pulled();
    ++pulls_;
  }
  client.Pull(0, pulled,
              [this, p](const StatusOr<uint64_t>& version) { OnPulled(p, version.status()); });
}

void LocalSteps::OnPulled(size_t p, const Status& status) {
  exec::CommDone* done = nullptr;
  Status result;
  {
    MutexLock lock(mu_);
    fragments_[p].phase = Phase::kPulled;
    if (error_.ok()) error_ = status;
    done = TakeIfArrived(&result);
  }
  if (done != nullptr) done->Complete(result);
}

exec::CommDone* LocalSteps::TakeIfArrived(Status* status) {
  if (done_ == nullptr) return nullptr;
  for (const Fragment& fragment : fragments_) {
    if (fragment.awaited && fragment.phase != Phase::kPulled && error_.ok()) return nullptr;
  }
  for (Fragment& fragment : fragments_) {
    if (!std::exchange(fragment.awaited, false) || !error_.ok()) continue;
    fragment.phase = Phase::kNone;
    if (ended_) {
      fragment.values.TakeAll();
    } else if (!fragment.values.Take()) {
      LookAgain(fragment);
    }
  }
  *status = error_;
  return std::exchange(done_, nullptr);
}

void LocalSteps::LookAgain(Fragment& fragment) const {
  // At most four pulls for a push: the values are as large as a push.
  const int64_t pause = std::max({int64_t{1}, rule_.delay, rule_.k_steps / 4});
  if (fragment.pending + pause >= rule_.k_steps) return;  // the next push comes first
  fragment.phase = Phase::kPushed;
  fragment.looked += pause;
}

void LocalSteps::Await(const std::vector<size_t>& due, exec::CommDone* done) {
  exec::CommDone* complete = nullptr;
  Status result;
  {
    MutexLock lock(mu_);
    TD_REQUIRE(done_ == nullptr);
    for (const size_t p : due) fragments_[p].awaited = true;
    done_ = done;
    complete = TakeIfArrived(&result);
  }
  if (complete != nullptr) complete->Complete(result);
}

void LocalSteps::AfterStep(ps::PsClient& client, int64_t step, exec::CommDone* done) {
  std::vector<size_t> begin, pull, due;
  {
    MutexLock lock(mu_);
    const auto count = static_cast<int64_t>(fragments_.size());
    for (size_t p = 0; p < fragments_.size(); ++p) {
      Fragment& fragment = fragments_[p];
      ++fragment.pending;
      const int64_t shift = static_cast<int64_t>(p) * rule_.k_steps / count;
      const bool begins = (step + 1 + shift) % rule_.k_steps == 0;
      if (begins) begin.push_back(p);
      if (!begins && fragment.phase == Phase::kNone) continue;
      const int64_t age = begins ? 0 : step - fragment.looked;
      // Half of the delay is for the push, and the other half for the pull.
      if (age == (rule_.delay + 1) / 2) pull.push_back(p);
      if (age >= rule_.delay) due.push_back(p);
    }
  }
  for (const size_t p : begin) Push(client, p, step);
  for (const size_t p : pull) WantPull(client, p);
  Await(due, done);
}

Status LocalSteps::Finish(ps::PsClient& client, int64_t step) {
  {
    MutexLock lock(mu_);
    if (ended_) return error_;
  }
  TD_RETURN_IF_ERROR(EndExchanges(client));
  std::vector<size_t> left;
  {
    MutexLock lock(mu_);
    ended_ = true;
    for (size_t p = 0; p < fragments_.size(); ++p) {
      const bool pushes = fragments_[p].pending > 0;
      if (pushes) left.push_back(p);
      fragments_[p].phase = pushes ? Phase::kNone : Phase::kPushed;  // kPushed: its pull is left
    }
  }
  for (const size_t p : left) Push(client, p, step);
  return EndExchanges(client);
}

Status LocalSteps::EndExchanges(ps::PsClient& client) {
  std::vector<size_t> open, pull;
  {
    MutexLock lock(mu_);
    for (size_t p = 0; p < fragments_.size(); ++p) {
      const Fragment& fragment = fragments_[p];
      if (fragment.phase == Phase::kNone) continue;
      open.push_back(p);
      const bool pushed = fragment.phase == Phase::kPushing || fragment.phase == Phase::kPushed;
      if (pushed && !fragment.wants_pull) pull.push_back(p);
    }
  }
  for (const size_t p : pull) WantPull(client, p);
  exec::CommDone done;
  Await(open, &done);
  return done.Wait(Time::max());
}

int64_t LocalSteps::pushes() const {
  MutexLock lock(mu_);
  return pushes_;
}

int64_t LocalSteps::pulls() const {
  MutexLock lock(mu_);
  return pulls_;
}

}  // namespace tandem::trainer
