#include "deploy/cli/job/job_snapshot.h"

#include <algorithm>

#include "common/base/require.h"
#include "common/http/status_page.h"
#include "proto/pserver.pb.h"

namespace tandem::deploy {
namespace {

// Seconds without a call after which a trainer seems silent. All trainers seem silent during a step
// that takes longer.
constexpr double kSilentSeconds = 2;
constexpr double kReplicaLagSeconds = 5;  // age of the values from which on a replica lags

void AddVariables(const StatusReply& reply, int server, JobSnapshot& job) {
  const auto of = [&](const std::string& name) -> VariableRow& {
    VariableRow& row = job.variables[name];
    row.name = name;
    if (row.servers.empty() || row.servers.back() != server) row.servers.push_back(server);
    return row;
  };
  for (const SliceStatus& slice : reply.slice()) of(slice.variable()).elements += slice.numel();
  for (const TableStatus& table : reply.table()) {
    VariableRow& row = of(table.variable());
    row.table = true;
    row.rows += table.rows();
    row.row_bytes += table.bytes();
    row.rows_extended += table.extended();
  }
}

void AddTrainers(const StatusReply& reply, std::map<int, TrainerRow>& trainers) {
  for (const TrainerStatus& t : reply.trainer()) {
    TrainerRow& row = trainers[static_cast<int>(t.trainer_id())];
    row.rank = static_cast<int>(t.trainer_id());
    const bool first = !row.on_servers;
    row.on_servers = true;
    row.last_step = first ? t.last_step() : std::min<uint64_t>(row.last_step, t.last_step());
    row.pushes = first ? t.pushes() : std::min<uint64_t>(row.pushes, t.pushes());
    row.silent_seconds =
        first ? t.silent_seconds() : std::min(row.silent_seconds, t.silent_seconds());
    row.waited_seconds = std::max(row.waited_seconds, t.waited_seconds());
    row.state = t.completed() ? "completed"
                : t.lost()    ? "lost"
                : t.seen()    ? "at work"
                              : "not connected yet";
  }
}

ServerRow AskServer(const JobAccess& access, size_t i, std::map<int, TrainerRow>& trainers,
                    JobSnapshot& job) {
  ServerRow row;
  row.index = static_cast<int>(i);
  row.address = ToString(access.pservers[i]);
  StatusReply reply;
  row.status = ServerAccess(access, i).GetStatus(&reply);
  if (IsGone(access, i, row.status)) {
    row.state = "drained, gone";
    return row;
  }
  if (!row.status.ok()) {
    job.problems.push_back(std::string(row.status.message()));
    row.state = "no answer";
    return row;
  }
  if (job.job.empty()) job.job = reply.job();
  row.state = !reply.configured()    ? "waiting for the first trainer"
              : !reply.initialised() ? "waiting for the initial parameters"
                                     : "serving";
  row.version = reply.version();
  row.checkpoint_version = reply.checkpoint_version();
  row.slices = reply.slice_size();
  for (const SliceStatus& slice : reply.slice()) row.elements += slice.numel();
  for (const TableStatus& table : reply.table()) {
    row.rows += table.rows();
    row.row_bytes += table.bytes();
    row.rows_extended += table.extended();
  }
  row.term = reply.term();
  row.member = static_cast<int>(reply.member());
  row.standbys = StandbysOf(reply, MembersOf(access, row.index));
  AddVariables(reply, row.index, job);
  AddTrainers(reply, trainers);
  return row;
}

// Replicas that do not answer are no problem of the job, because training goes on without them.
void AskReplicas(const JobAccess& access, JobSnapshot& job) {
  for (const ReplicaAddress& replica : access.replicas) {
    ReplicaRow row;
    row.server = replica.server;
    row.number = replica.number;
    row.address = ToString(replica.endpoint);
    row.redis = replica.redis;
    StatusReply reply;
    const Status status = ServerAccess(access, replica).GetStatus(&reply);
    row.answers = status.ok();
    row.state = "no answer";
    const std::string name =
        absl::StrFormat("replica %d of pserver %d", replica.number, replica.server);
    if (status.ok()) {
      row.version = reply.version();
      row.lag_entries = reply.lag_entries();
      row.lag_seconds = reply.lag_seconds();
      const bool lags = row.lag_seconds > kReplicaLagSeconds;
      row.state = lags ? "lagging" : "serving";
      if (lags) job.slow.push_back(LagText(name, row.lag_seconds, row.lag_entries));
    } else {
      job.slow.push_back(name + " does not answer: it fetches a checkpoint, or has ended");
    }
    job.replicas.push_back(std::move(row));
  }
  std::ranges::stable_sort(job.replicas, {}, &ReplicaRow::server);
}

void AskPage(const JobAccess& access, const PageAddress& address,
             std::map<int, TrainerRow>& trainers, JobSnapshot& job) {
  const StatusOr<Page> page = ReadPage(address.endpoint, access.timeout);
  TrainerRow& row = trainers[address.rank];
  row.rank = address.rank;
  if (!page.ok()) {
    job.problems.push_back(absl::StrFormat("trainer %d (status page %s): %s", address.rank,
                                           ToString(address.endpoint),
                                           std::string(page.status().message())));
    if (row.state.empty()) row.state = "no answer";
    return;
  }
  row.state = page->Fact("state");
  row.step = page->Fact("step");
  row.samples_per_second = page->Fact("samples per second");
  row.data_wait = page->Fact("waiting for data");
  row.remaining = page->Fact("remaining");
  row.checkpoint = page->Fact("last checkpoint");
  row.slowest = page->Fact("slowest");
}

// Finds the slow trainers. In sync mode a trainer can be ahead of another by at most one step.
// Therefore FindSlow reports a lag of one step only if the lagging trainer is also silent. Trainers
// that wait for a straggler are silent too, so FindSlow reports silence without a lag only if no
// trainer lags.
void FindSlow(JobSnapshot& job) {
  TD_REQUIRE(std::ranges::is_sorted(job.trainers, {}, &TrainerRow::rank));
  uint64_t ahead = 0;
  for (const TrainerRow& t : job.trainers) {
    if (t.on_servers) ahead = std::max(ahead, t.last_step);
  }
  std::vector<std::string> silent;
  for (const TrainerRow& t : job.trainers) {
    if (!t.on_servers || t.state == "completed") continue;
    const uint64_t behind = ahead - t.last_step;
    const bool quiet = t.silent_seconds > kSilentSeconds;
    if (t.pushes == 0 && ahead > 0) {
      job.slow.push_back(absl::StrFormat("trainer %d has not pushed yet", t.rank));
    } else if (behind > 1) {
      job.slow.push_back(absl::StrFormat("trainer %d is %d steps behind", t.rank, behind));
    } else if (behind == 1 && quiet) {
      job.slow.push_back(absl::StrFormat(
          "trainer %d is 1 step behind and has sent nothing for %.0f s", t.rank, t.silent_seconds));
    } else if (quiet) {
      silent.push_back(
          absl::StrFormat("trainer %d has sent nothing for %.0f s", t.rank, t.silent_seconds));
    }
  }
  if (job.slow.empty()) job.slow = std::move(silent);
  // All ranks exchange the same waiting times, so their status pages name the same slowest rank.
  // Therefore FindSlow uses the first page that names one.
  for (const TrainerRow& t : job.trainers) {
    if (t.slowest.empty() || t.slowest == "-") continue;
    if (t.slowest != "none") job.slow.push_back(t.slowest);
    return;
  }
  if (!job.slow.empty()) return;
  std::vector<std::pair<int, double>> waited;
  for (const TrainerRow& t : job.trainers) {
    const bool at_work = t.pushes > 0 && t.state != "completed" && t.state != "lost";
    if (t.on_servers && at_work) waited.emplace_back(t.rank, t.waited_seconds);
  }
  const std::string slowest = http::SlowestText("trainer", waited, "since the pservers started");
  if (slowest != "-" && slowest != "none") job.slow.push_back(slowest);
}

}  // namespace

uint64_t JobSnapshot::Version() const {
  uint64_t least = UINT64_MAX;
  for (const ServerRow& row : servers) {
    if (row.status.ok() && row.slices + static_cast<int64_t>(row.rows) > 0) {
      least = std::min(least, row.version);
    }
  }
  return least == UINT64_MAX ? 0 : least;
}

JobSnapshot LookAt(const JobAccess& access) {
  JobSnapshot job;
  job.job = access.job;
  job.at = SteadyNow();
  std::map<int, TrainerRow> trainers;
  for (size_t i = 0; i < access.pservers.size(); ++i) {
    job.servers.push_back(AskServer(access, i, trainers, job));
    ++job.asked;
  }
  for (const PageAddress& page : access.pages) {
    if (page.role != "trainer") continue;
    AskPage(access, page, trainers, job);
    ++job.asked;
  }
  for (auto& [rank, row] : trainers) job.trainers.push_back(std::move(row));
  TD_REQUIRE(job.problems.size() <= job.asked);
  FindSlow(job);
  for (const ServerRow& server : job.servers) {
    for (const StandbyRow& standby : server.standbys) {
      if (auto slow = standby.SlowText(server.index)) job.slow.push_back(*std::move(slow));
    }
  }
  AskReplicas(access, job);
  return job;
}

}  // namespace tandem::deploy
