// Elastic jobs: the members of each world.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "collective/rendezvous/world_file.h"
#include "deploy/launch/supervisor.h"
#include "deploy/launch/supervisor_child.h"

namespace tandem::deploy {

std::vector<int> Supervisor::RanksHere() const {
  std::vector<int> ranks;
  for (const auto& child : children_) {
    if (child->plan->role == Role::kTrainer && child->member && child->process->running()) {
      ranks.push_back(child->plan->rank);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Status Supervisor::PublishWorld(std::vector<int> members) {
  return collective::WriteElasticWorld(
      plan_.world_file, {++world_version_, plan_.ranks_least, Over(), std::move(members)});
}

// Notifies the running ranks, and shows the output of the lowest rank.
void Supervisor::ChangeWorld() {
  const std::vector<int> ranks = RanksHere();
  for (const auto& child : children_) {
    if (options_.quiet || child->plan->role != Role::kTrainer) continue;
    const bool shown = !ranks.empty() && child->plan->rank == ranks[0];
    for (size_t i = 0; i < child->output.size(); ++i) {
      child->output[i].ShowOn(!shown ? -1 : i == 0 ? shown_stdout() : STDERR_FILENO);
    }
  }
  if (const Status status = PublishWorld(ranks); !status.ok()) {
    std::fprintf(stderr, "%s: %s\n", options_.name, ToString(status).c_str());
  }
}

void Supervisor::LoseRanks(std::vector<Child*>& ended) {
  if (!plan_.elastic() || ended.empty()) return;
  const int left = static_cast<int>(RanksHere().size());
  const bool enough = left > 0 && (Over() || left >= plan_.ranks_least);
  bool news = Over();
  for (size_t i = 0; i < ended.size();) {
    Child& child = *ended[i];
    const ExitState exit = *child.process->Poll();
    const bool lost = exit.signal != 0 && (enough || !MayRestart(*child.plan));
    if (child.plan->role != Role::kTrainer || (child.member && !lost)) {
      ++i;
      continue;
    }
    std::string then = "before it joined";
    if (child.member) {
      then = absl::StrFormat(
          enough ? "%d of %d ranks continue" : "only %d of %d ranks are left, but the job needs %d",
          left, plan_.workers, plan_.ranks_least);
    }
    Note("lost", child.plan->Name(), child.process->pid(), then);
    std::fprintf(stderr, "%s: %s: %s: %s\n", options_.name, child.plan->Name().c_str(),
                 exit.Text().c_str(), then.c_str());
    if (child.member && !enough) return;
    news = news || child.member;
    ended.erase(ended.begin() + static_cast<ptrdiff_t>(i));
    if (exit.signal != 0 && MayRestart(*child.plan)) StartAgain(child, /*member=*/false);
  }
  if (news) ChangeWorld();
}

void Supervisor::Admit(int rank) {
  for (const auto& child : children_) {
    const bool meant = child->plan->role == Role::kTrainer && child->plan->rank == rank &&
                       !child->member && child->process->running();
    if (!meant || phase_ != Phase::kRunning || Over()) continue;
    child->member = true;
    const std::string text =
        absl::StrFormat("joined: %d of %d ranks", RanksHere().size(), plan_.workers);
    Note("joined", child->plan->Name(), child->process->pid(), text);
    std::fprintf(stderr, "%s: %s %s\n", options_.name, child->plan->Name().c_str(), text.c_str());
    return ChangeWorld();
  }
}

void Supervisor::FillWorld() {
  if (phase_ != Phase::kRunning || stop_signal_ != 0 || Over()) return;
  std::vector<Child*> gone;
  for (const auto& child : children_) {
    if (child->plan->role == Role::kTrainer && child->seen_end) gone.push_back(child.get());
  }
  std::fprintf(stderr, "%s: SIGUSR1: restarting %d of %d trainers\n", options_.name,
               static_cast<int>(gone.size()), plan_.workers);
  for (const Child* old : gone) Replace(*old, /*member=*/false);
}

}  // namespace tandem::deploy
