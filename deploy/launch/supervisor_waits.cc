// Processes that others wait for: warns the user, and kills unresponsive processes.
#include <signal.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "deploy/launch/supervisor.h"
#include "deploy/launch/supervisor_child.h"

namespace tandem::deploy {

void Supervisor::HandleRankReports() {
  const RankReports words = rank_words_.Read();
  for (const NamedProcess& process : words.here) {
    if (Child* const child = Running(process)) child->here = true;
  }
  for (const int rank : words.ready) Admit(rank);
  for (const ProcessWait& wait : words.waits) HearWait(wait);
}

Supervisor::Child* Supervisor::Running(const NamedProcess& process) const {
  const Role role = process.kind == "pserver" ? Role::kPserver : Role::kTrainer;
  int rank = process.number;
  // Several callers of a pserver may be replicas of one trainer.
  if (process.kind == "caller") rank /= std::max(1, plan_.trainers / std::max(1, plan_.workers));
  for (const auto& child : children_) {
    const bool meant = child->plan->role == role && child->plan->rank == rank;
    if (meant && child->process->running()) return child.get();
  }
  return nullptr;
}

std::string Supervisor::NameOf(const NamedProcess& process) const {
  const Child* const child = Running(process);
  return child != nullptr ? child->plan->Name()
                          : absl::StrFormat("%s %d", process.kind, process.number);
}

void Supervisor::HearWait(const ProcessWait& wait) {
  if (phase_ != Phase::kRunning || stop_signal_ != 0 || failure_) return;
  Child* const child = Running(wait.whom);
  const Time began = SteadyNow() - wait.waited;
  // A successor that is still starting is not the awaited process.
  if (child == nullptr || child->silent > Duration::zero() || child->started > began) return;
  const Duration limit = child->here ? wait.limit : wait.start_limit;
  if (wait.waited >= limit) return KillSilent(*child, wait);
  if (child->told_wait >= began) return;
  child->told_wait = SteadyNow();
  std::fprintf(stderr, "%s: %s is waiting for %s, which %s (%.1f s of %.1f s)\n", options_.name,
               NameOf(wait.who).c_str(), child->plan->Name().c_str(),
               child->here ? "does not reply" : "has not joined", Seconds(wait.waited),
               Seconds(limit));
}

void Supervisor::KillSilent(Child& child, const ProcessWait& wait) {
  const std::string text =
      absl::StrFormat("%s has waited for it for %.1f s", NameOf(wait.who), Seconds(wait.waited));
  std::fprintf(stderr, "%s: %s does not reply (%s): killing it\n", options_.name,
               child.plan->Name().c_str(), text.c_str());
  Note("silent", child.plan->Name(), child.process->pid(), text);
  child.silent = wait.waited;
  child.process->Signal(SIGKILL);
  // The other processes may end, for lack of it, before its own end is noticed.
  if (!plan_.elastic() && !MayRestart(*child.plan)) failure_ = FailureOf(child);
}

}  // namespace tandem::deploy
