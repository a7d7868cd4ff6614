#include "trainer/session/elastic.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/require.h"
#include "common/launcher/elastic_world.h"
#include "common/launcher/launcher_words.h"
#include "proto/job.pb.h"
#include "trainer/config/rank_return.h"
#include "trainer/monitoring/event_file.h"
#include "trainer/monitoring/status_reporter.h"
#include "trainer/session/elastic_state.h"

namespace tandem::trainer {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(20);
constexpr int kLooksPerWord = 50;  // reads of the world file between two reports to the launcher

// The job, divided among `ranks` ranks.
struct Division {
  int ranks = 0;
  EffectiveJob job;
};

// Divides the job among the largest possible number of the world's members. Returns an error if no
// number is possible.
StatusOr<Division> Divide(const JobForRanks& load, const ElasticWorld& world) {
  const int most = static_cast<int>(world.members.size());
  Status status = Internal("version %d of the world file names no rank", world.version);
  for (int ranks = most; ranks >= 1; --ranks) {
    StatusOr<EffectiveJob> job = load(ranks);
    if (job.ok()) return Division{ranks, *std::move(job)};
    if (ranks == most) status = job.status();
  }
  return status;
}

std::string HostOf(const std::string& endpoint) { return endpoint.substr(0, endpoint.rfind(':')); }

// Sets local rank and size of `rank`, and the rendezvous if that is the address of rank 0.
void PlaceOnHost(const RankInfo& process, RankInfo& rank) {
  const std::vector<std::string>& trainers = process.trainers;
  if (trainers.size() != static_cast<size_t>(process.size)) {
    rank.local_rank = rank.rank;
    rank.local_size = rank.size;
    return;
  }
  const auto endpoint = [&trainers](int number) { return trainers[static_cast<size_t>(number)]; };
  rank.local_size = 0;
  for (const int member : rank.members) {
    if (HostOf(endpoint(member)) != HostOf(endpoint(process.rank))) continue;
    if (member == process.rank) rank.local_rank = rank.local_size;
    ++rank.local_size;
  }
  // Rank 0 is another process in another world, perhaps on another host.
  if (process.rendezvous == trainers[0]) rank.rendezvous = endpoint(rank.members[0]);
}

// Returns the rank that `process` has in `world`. The first `ranks` members of the world train.
// nullopt: the process does not train in this world.
std::optional<RankInfo> RankIn(const ElasticWorld& world, int ranks, const RankInfo& process) {
  TD_REQUIRE(ranks > 0 && static_cast<size_t>(ranks) <= world.members.size());
  const auto at = std::find(world.members.begin(), world.members.end(), process.rank);
  const int number = static_cast<int>(at - world.members.begin());
  if (number >= ranks) return {};
  RankInfo rank = process;
  rank.rank = number;
  rank.size = ranks;
  rank.members.assign(world.members.begin(), world.members.begin() + ranks);
  PlaceOnHost(process, rank);
  rank.world_version = world.version;
  rank.peers_return = true;
  return rank;
}

std::string Named(const std::vector<int>& members) {
  return absl::StrCat(members.size() == 1 ? "trainer " : "trainers ", absl::StrJoin(members, ", "));
}

std::vector<int> Without(const std::vector<int>& members, const std::vector<int>& others) {
  std::vector<int> rest;
  std::set_difference(members.begin(), members.end(), others.begin(), others.end(),
                      std::back_inserter(rest));
  return rest;
}

// Returns a message for the user that tells how the world changed.
std::string ChangeText(const std::vector<int>& before, const ElasticWorld& world, int ranks) {
  const std::vector<int> lost = Without(before, world.members);
  const std::vector<int> came = Without(world.members, before);
  const std::vector<int> train(world.members.begin(), world.members.begin() + ranks);
  std::string text;
  if (!lost.empty()) text += Named(lost) + (lost.size() == 1 ? " is lost; " : " are lost; ");
  if (!came.empty()) text += Named(came) + (came.size() == 1 ? " has joined; " : " have joined; ");
  text += absl::StrFormat("%d %s (world %d: %s", ranks,
                          ranks == 1 ? "rank continues" : "ranks continue", world.version,
                          Named(train));
  const std::vector<int> wait = Without(world.members, train);
  if (!wait.empty()) {
    text += absl::StrFormat("; %s %s, because the job cannot be divided equally among %d ranks",
                            Named(wait), wait.size() == 1 ? "waits" : "wait", world.members.size());
  }
  return text + ")";
}

class ElasticRun {
 public:
  ElasticRun(const ElasticJob& job, StopSwitch& stop, const Clock& clock)
      : job_(job), file_(job.options.rank.world_file), stop_(stop), clock_(clock) {}

  ~ElasticRun() {
    if (events_ != nullptr) job_.options.board->WriteEvents(nullptr);
  }

  StatusOr<ElasticResult> Run();

 private:
  Status OpenOnce(const JobConfig& config);
  StatusOr<SessionResult> Train(const ElasticWorld& world, const Division& division,
                                const RankInfo& rank);
  Status WriteEvents(bool leads);
  Status AwaitAnother(const ElasticWorld& world);
  bool Superseded(int64_t version) const {
    const auto now = ReadElasticWorld(file_);
    return now.ok() && now->version != version;
  }

  const ElasticJob& job_;
  const std::string file_;
  StopSwitch& stop_;
  const Clock& clock_;
  reader::TrainAndTest data_;
  std::unique_ptr<EventFile> events_;  // null: this process has not been rank 0
  std::shared_ptr<const ElasticState> kept_;
  std::vector<int> members_;  // members of the last world that this process knew
  std::string message_;       // message for the user: changes since members_
};

Status ElasticRun::OpenOnce(const JobConfig& config) {
  if (data_.train != nullptr) return OkStatus();
  // Any process may become rank 0, so each process opens the test data too.
  TD_ASSIGN_OR_RETURN(data_, reader::OpenData(config.data(), job_.options.job_dir,
                                              /*with_test=*/true, SamplesInStep(config)));
  for (const std::string& warning : data_.warnings) {
    if (job_.options.rank.rank == 0) job_.options.sink("warning: " + warning + "\n");
  }
  return OkStatus();
}

// Gives the status reporter an event file if this process is rank 0, and no file if it is not. Each
// process that becomes rank 0 writes a separate file, and TensorBoard merges these files into one
// curve.
Status ElasticRun::WriteEvents(bool leads) {
  if (job_.event_dir.empty()) return OkStatus();
  if (leads && events_ == nullptr) {
    TD_ASSIGN_OR_RETURN(events_, EventFile::Create(job_.event_dir));
  }
  job_.options.board->WriteEvents(leads ? events_.get() : nullptr);
  return OkStatus();
}

StatusOr<SessionResult> ElasticRun::Train(const ElasticWorld& world, const Division& division,
                                          const RankInfo& rank) {
  TD_RETURN_IF_ERROR(WriteEvents(rank.rank == 0));
  SessionOptions options = job_.options;
  options.rank = rank;
  options.rank.has_state = kept_ != nullptr;
  options.job_text = division.job.text;
  options.train = data_.train.get();
  options.test = data_.test.get();
  options.kept = kept_;
  options.superseded = [this, version = world.version] { return Superseded(version); };
  options.message = message_;
  TD_ASSIGN_OR_RETURN(
      const auto places,
      LocalReplicas::Make(*division.job.config, std::move(options), job_.secrets, clock_));
  StatusOr<SessionResult> result = stop_.Run(*places);
  if (auto kept = places->TakeKept()) kept_ = std::move(kept);
  return result;
}

// Blocks until there is another world, or until a stop is requested. A process that is not a member
// of the world also reports to the launcher that it is ready.
Status ElasticRun::AwaitAnother(const ElasticWorld& world) {
  const RankInfo& process = job_.options.rank;
  const bool member = std::binary_search(world.members.begin(), world.members.end(), process.rank);
  for (int look = 0; !Superseded(world.version); ++look) {
    if (!member && look % kLooksPerWord == 0) TellReady(process.launcher, process.rank);
    if (stop_.WaitFor(kLookEvery))
      return Cancelled("the rank stopped on request while it was not part of the job");
  }
  return OkStatus();
}

StatusOr<ElasticResult> ElasticRun::Run() {
  bool trained = false;  // this process trained in the previous world
  while (true) {
    TD_ASSIGN_OR_RETURN(const ElasticWorld world, ReadElasticWorld(file_));
    TD_ASSIGN_OR_RETURN(const Division division, Divide(job_.load, world));
    TD_RETURN_IF_ERROR(OpenOnce(*division.job.config));
    const auto rank = RankIn(world, division.ranks, job_.options.rank);
    if (world.over && !(rank && trained)) return ElasticResult();
    message_ = members_.empty() ? "" : ChangeText(members_, world, division.ranks);
    members_ = world.members;
    trained = rank.has_value();
    if (!rank) {
      TD_RETURN_IF_ERROR(AwaitAnother(world));
      continue;
    }
    StatusOr<SessionResult> result = Train(world, division, *rank);
    if (result.ok()) return ElasticResult{*std::move(result), rank->rank == 0};
    if (stop_.stopped() || !Superseded(world.version)) return result.status();
  }
}

}  // namespace

Status CheckElastic(const JobForRanks& load, const JobConfig& config, const RankInfo& rank) {
  TD_REQUIRE(load != nullptr);
  if (!config.strategy().elastic()) {
    return InvalidArgument(
        "elastic: false contradicts tandemrun --nproc=MIN:MAX [TD1005]; hint: use --nproc=%d",
        rank.size);
  }
  if (rank.world_file.empty()) {
    return InvalidArgument(
        "elastic: the ranks of the job are unknown, because TANDEM_WORLD_FILE is not set [TD1007]; "
        "hint: start the job with tandemrun --nproc=MIN:MAX");
  }
  TD_RETURN_IF_ERROR(CheckReturn(config, "elastic"));
  if (config.place() != "cpu") {
    return Unimplemented(
        "elastic is not implemented with place %s [TD1109]; hint: set place: \"cpu\"",
        config.place());
  }
  if (config.strategy().use_hierarchical_allreduce()) {
    return Unimplemented("elastic is not implemented with use_hierarchical_allreduce [TD1109]");
  }
  if (config.has_batch_size()) {
    return InvalidArgument(
        "elastic needs global_batch_size instead of batch_size, because the number of ranks may "
        "change [TD1108]; hint: set global_batch_size: %d",
        GlobalBatch(config, rank.size));
  }
  TD_ASSIGN_OR_RETURN(const ElasticWorld world, ReadElasticWorld(rank.world_file));
  return Annotate(load(world.least).status(),
                  absl::StrFormat("elastic, with the minimum number of ranks (--nproc=%d:%d)",
                                  world.least, rank.size));
}

StatusOr<ElasticResult> RunElastic(const ElasticJob& job, StopSwitch& stop, const Clock& clock) {
  return ElasticRun(job, stop, clock).Run();
}

}  // namespace tandem::trainer
