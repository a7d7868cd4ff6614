#include "trainer/modes/collective_communicators.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "collective/host/connect.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/launcher/elastic_world.h"
#include "common/launcher/launcher_words.h"
#include "trainer/config/job_agreement.h"

namespace tandem::trainer {

std::string CollectiveCommunicators::Process(int rank) const {
  const std::vector<int>& members = options_.returns.members;
  TD_REQUIRE(members.empty() || static_cast<size_t>(rank) < members.size());
  return absl::StrFormat("trainer %d", members.empty() ? rank : members[static_cast<size_t>(rank)]);
}

Status CollectiveCommunicators::Connect(Device& device, Duration timeout,
                                        const std::function<bool()>& stop,
                                        const std::vector<ReducedBucket>& reduced) {
  TD_REQUIRE(communicators_.empty());
  collective::WorldConfig world = WorldOf(options_.common, options_.world, stop);
  world.timeout = timeout;
  const ReturnOptions& returns = options_.returns;
  if (returns.peers_return) world.connect_timeout = std::chrono::seconds(10);
  if (returns.world_version > 0) {
    world.check = [returns] {
      return CheckMembers(returns.world_file, returns.world_version, returns.members);
    };
  }
  if (!options_.common.launcher.empty()) {
    world.missing = [this](const std::vector<int>& ranks, Duration waited) {
      const Duration start_limit =
          std::max(options_.common.start_timeout, options_.common.step_timeout);
      for (const int rank : ranks) {
        TellWait(options_.common.launcher, {Process(options_.common.rank), Process(rank), waited,
                                            // The limit for a peer that has joined is the step
                                            // timeout, because this peer may be working on a step.
                                            options_.common.step_timeout, start_limit});
      }
    };
  }
  if (options_.group > 1 && options_.common.leader() && !options_.tree_order) {
    LOG(INFO) << "hierarchical allreduce: "
              << collective::DescribeGroups(options_.common.ranks, options_.group)
              << (options_.common.ranks > options_.group ? "" : " (only one group: the flat ring)");
  }
  const bool devices = device.place().kind != PlaceKind::kCpu;
  TD_RETURN_IF_ERROR(devices ? ConnectDevices(device, world) : ConnectHosts(world, reduced));
  DCHECK(!communicators_.empty());
  if (options_.common.leader()) LOG(INFO) << "collectives use " << communicators_[0]->name();
  if (!options_.common.launcher.empty())
    TellHere(options_.common.launcher, Process(options_.common.rank));
  return OkStatus();
}

Status CollectiveCommunicators::AgreeOnJob() {
  if (options_.common.agreement.empty()) return OkStatus();
  return AgreeAmongRanks(hosts(), options_.common.agreement,
                         SteadyNow() + options_.common.start_timeout);
}

Status CollectiveCommunicators::ConnectHosts(const collective::WorldConfig& world,
                                             const std::vector<ReducedBucket>& reduced) {
  collective::HostCommunicatorConfig config;
  config.operation_timeout = options_.common.step_timeout;
  config.rule.tree_order = options_.tree_order;
  config.rule.group = options_.group;
  config.rule.form = options_.form;
  if (options_.choose_by_model && options_.common.ranks > 1) {
    TD_ASSIGN_OR_RETURN(config.rule.choices,
                        ChooseByModel(world, config, options_.world.transport, reduced));
  }
  for (int i = 0; i < options_.comm_num; ++i) {
    // Without the barrier, a rank could join the next communicator before rank 0 has closed the
    // rendezvous of the previous one.
    if (i > 0) {
      TD_RETURN_IF_ERROR(
          communicators_.back()->Barrier({.what = "next communicator"})->Wait(Time::max()));
    }
    TD_ASSIGN_OR_RETURN(auto communicator,
                        collective::Connect(world, config, {options_.world.transport}));
    communicators_.push_back(std::move(communicator));
    if (i == 0) TD_RETURN_IF_ERROR(AgreeOnJob());
  }
  return OkStatus();
}

Status CollectiveCommunicators::ConnectDevices(Device& device,
                                               const collective::WorldConfig& world) {
  TD_ASSIGN_OR_RETURN(nccl_, collective::OpenNccl());
  collective::HostCommunicatorConfig config;
  config.operation_timeout = options_.common.step_timeout;
  TD_ASSIGN_OR_RETURN(control_, collective::Connect(world, config, {options_.world.transport}));
  TD_RETURN_IF_ERROR(AgreeOnJob());
  // A single communicator orders its own operations. Several communicators that take turns are not
  // used, because the thread of one communicator would start operations of another communicator
  // while the compute stream is being recorded.
  const int count = options_.one_comm_at_a_time ? 1 : options_.comm_num;
  for (int i = 0; i < count; ++i) {
    const collective::NcclOptions one = {.number = i,
                                         .start_timeout = options_.common.start_timeout,
                                         .operation_timeout = options_.common.step_timeout,
                                         .group = options_.group,
                                         .form = options_.form};
    TD_ASSIGN_OR_RETURN(auto communicator, collective::ConnectNccl(nccl_, device, *control_, one));
    communicators_.push_back(std::move(communicator));
  }
  if (options_.common.leader()) {
    LOG(INFO) << "NCCL " << collective::NcclVersionText(nccl_.version) << ", " << count
              << " communicators of " << options_.common.ranks << " devices";
  }
  return OkStatus();
}

// Compares versions, because the rendezvous cannot distinguish two worlds of the same size.
Status CollectiveCommunicators::AgreeOnWorld() {
  if (options_.returns.world_version == 0) return OkStatus();
  std::vector<int64_t> versions(static_cast<size_t>(options_.common.ranks));
  TD_RETURN_IF_ERROR(hosts()
                         .AllGather(&options_.returns.world_version, versions.data(), 1,
                                    DType::kI64, {.what = "rendezvous rounds"})
                         ->Wait(Time::max()));
  for (const int64_t version : versions) {
    if (version == options_.returns.world_version) continue;
    return Aborted("this rank is in rendezvous round %d, but another rank is in round %d [TD3007]",
                   options_.returns.world_version, version);
  }
  return OkStatus();
}

collective::Communicator& CollectiveCommunicators::hosts() const {
  TD_REQUIRE(control_ != nullptr || !communicators_.empty());
  return control_ != nullptr ? *control_ : *communicators_[0];
}

collective::Communicator& CollectiveCommunicators::Numbered(size_t i) const {
  TD_REQUIRE(!communicators_.empty());
  return *communicators_[i % communicators_.size()];
}

void CollectiveCommunicators::Abort(const Status& why) {
  for (const auto& communicator : communicators_) communicator->Abort(ToString(why));
  if (control_ != nullptr) control_->Abort(ToString(why));
}

}  // namespace tandem::trainer
