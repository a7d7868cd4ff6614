#include "deploy/launch/pserver_scaling.h"

#include <signal.h>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "deploy/launch/job_record.h"

namespace tandem::deploy {

void PserverScaling::SetNumber(int number) {
  const ScaleSide& side = scale_.state().pservers;
  TD_REQUIRE(side.Accepts(number));
  scale_.SetDesiredPservers(number);
  for (int rank = side.least; rank < number; ++rank) {
    const Status status = Add(rank);
    if (status.ok()) continue;
    const std::string name = absl::StrFormat("pserver %d", rank);
    journal_.Say(absl::StrFormat("%s was not added: %s", name, ToString(status)));
    return journal_.Note("not added", name, 0, std::string(status.message()));
  }
  for (const auto& process : processes_.all()) {
    if (process->is(Role::kPserver) && process->plan->rank >= number) End(*process);
  }
}

Status PserverScaling::Add(int rank) {
  const std::string name = absl::StrFormat("pserver %d", rank);
  if (processes_.FindRunning(name) != nullptr) return OkStatus();
  TD_ASSIGN_OR_RETURN(const ProcessPlan* const plan, scale_.PlanOf(rank));
  TD_RETURN_IF_ERROR(sockets_.Add(*plan));
  scale_.StartPserver(rank);
  if (const JobProcess* const old = processes_.FindEnded(name)) processes_.Remove(*old);
  Status status = start_(*plan);
  if (!status.ok()) sockets_.Keep(*plan);
  return status;
}

void PserverScaling::End(JobProcess& process) {
  const int rank = process.plan->rank;
  if (!process.running() || scale_.IsEnding(rank)) return;
  const PserverChanges changes = ReadPserverChanges(journal_.log_dir());
  if (changes.added.contains(rank) && !changes.drained.contains(rank)) {
    return journal_.Note("not ended", process.plan->Name(), 0, "it is not drained");
  }
  scale_.EndPserver(rank);
  process.Signal(SIGTERM);
}

}  // namespace tandem::deploy
