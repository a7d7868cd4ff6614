#include "deploy/launch/job_processes.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/require.h"

namespace tandem::deploy {

JobProcesses::JobProcesses(int callers_per_worker) : callers_per_worker_(callers_per_worker) {
  TD_REQUIRE(callers_per_worker > 0);
}

void JobProcesses::Add(std::unique_ptr<JobProcess> process) {
  TD_REQUIRE(process->process.has_value());
  TD_REQUIRE(std::none_of(all_.begin(), all_.end(), [&](const auto& p) {
    return p->is(process->plan->role) && p->plan->rank == process->plan->rank &&
           p->plan->member == process->plan->member && p->plan->replica == process->plan->replica &&
           p->running();
  }));
  all_.push_back(std::move(process));
}

void JobProcesses::Remove(const JobProcess& process) {
  [[maybe_unused]] const size_t before = all_.size();
  std::erase_if(all_, [&](const auto& p) { return p.get() == &process; });
  TD_REQUIRE(all_.size() + 1 == before);
}

bool JobProcesses::Has(Role role) const {
  return std::any_of(all_.begin(), all_.end(), [role](const auto& p) { return p->is(role); });
}

bool JobProcesses::AnyRunning(Role role) const {
  return std::any_of(all_.begin(), all_.end(),
                     [role](const auto& p) { return p->is(role) && p->running(); });
}

JobProcess* JobProcesses::Find(const NamedProcess& name) const {
  const Role role = name.kind == "pserver" ? Role::kPserver : Role::kTrainer;
  int rank = name.number;
  if (name.kind == "caller") rank /= callers_per_worker_;
  for (const auto& p : all_) {
    if (p->is(role) && p->plan->rank == rank && p->running() && !p->standby) return p.get();
  }
  return nullptr;
}

JobProcess* JobProcesses::FindRunning(const std::string& name) const {
  TD_REQUIRE(!name.empty());
  for (const auto& process : all_) {
    if (process->running() && process->plan->Name() == name) return process.get();
  }
  return nullptr;
}

JobProcess* JobProcesses::FindEnded(const std::string& name) const {
  TD_REQUIRE(!name.empty());
  for (const auto& process : all_) {
    if (process->seen_end && process->plan->Name() == name) return process.get();
  }
  return nullptr;
}

std::string JobProcesses::NameOf(const NamedProcess& name) const {
  const JobProcess* const process = Find(name);
  return process != nullptr ? process->plan->Name()
                            : absl::StrFormat("%s %d", name.kind, name.number);
}

std::vector<JobProcess*> JobProcesses::CollectEnded() {
  std::vector<JobProcess*> ended;
  for (const auto& p : all_) {
    if (p->CollectEnd()) ended.push_back(p.get());
  }
  return ended;
}

void JobProcesses::Signal(Role role, int signal) {
  for (const auto& p : all_) {
    if (p->is(role)) p->Signal(signal);
  }
}

void JobProcesses::Poll(std::vector<pollfd> fds, int timeout_ms) {
  // Each channel; true: the channel waits until it can write to the terminal.
  std::vector<std::pair<OutputChannel*, bool>> owners;
  for (const auto& p : all_) {
    for (OutputChannel& channel : p->output) {
      const bool writing = channel.write_fd() >= 0;
      const int fd = writing ? channel.write_fd() : channel.read_fd();
      if (fd < 0) continue;
      fds.push_back({fd, static_cast<short>(writing ? POLLOUT : POLLIN), 0});
      owners.emplace_back(&channel, writing);
    }
  }
  if (poll(fds.data(), fds.size(), timeout_ms) <= 0) return;
  for (size_t i = 0; i < owners.size(); ++i) {
    if (fds[fds.size() - owners.size() + i].revents == 0) continue;
    owners[i].second ? owners[i].first->OnWritable() : owners[i].first->OnReadable();
  }
}

void JobProcesses::CopyWindowSize() {
  for (const auto& p : all_) {
    for (OutputChannel& channel : p->output) channel.CopyWindowSize();
  }
}

void JobProcesses::FlushOutput(Duration most) {
  const Time deadline = SteadyNow() + most;
  for (const auto& p : all_) {
    for (OutputChannel& channel : p->output) {
      while (channel.write_fd() >= 0 && SteadyNow() < deadline) {
        pollfd fd = {channel.write_fd(), POLLOUT, 0};
        if (poll(&fd, 1, 100) > 0) channel.OnWritable();
      }
    }
  }
}

}  // namespace tandem::deploy
