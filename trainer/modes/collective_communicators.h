// The communicators of a rank in collective mode.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collective/communicator.h"
#include "collective/nccl/nccl_communicator.h"
#include "common/tensor/device.h"
#include "trainer/modes/collective_mode.h"
#include "trainer/modes/comms/allreduce_choice.h"

namespace tandem::trainer {

// The communicators of one rank in collective mode. If they communicate device memory (NCCL), a
// further communicator connects the ranks for their host memory. Not thread-safe, except Abort.
class CollectiveCommunicators {
 public:
  // `options` must outlive this object. `connected`: communicators that are already connected. If
  // `connected` is not empty, the caller must not call Connect.
  CollectiveCommunicators(const CollectiveOptions& options,
                          std::vector<std::unique_ptr<collective::Communicator>> connected)
      : options_(options), communicators_(std::move(connected)) {}

  // Connects this rank to its peers, for communication of memory of `device`, and checks that all
  // ranks run the same job. Ends within `timeout`, or when `stop` returns true. `reduced`: the
  // buckets for which CollectiveOptions::choose_by_model chooses algorithms. REQUIRES: empty().
  // FAILED_PRECONDITION: a peer belongs to another job. INVALID_ARGUMENT: the settings of the ranks
  // differ.
  Status Connect(Device& device, Duration timeout, const std::function<bool()>& stop,
                 const std::vector<ReducedBucket>& reduced);
  // Compares the version of the world on all ranks, a collective call. ABORTED: a rank has another
  // version.
  Status AgreeOnWorld();
  // Disconnects all communicators. Exception: if they communicate device memory, the further
  // communicator for host memory stays connected.
  void Clear() { communicators_.clear(); }
  void Abort(const Status& why);

  bool empty() const { return communicators_.empty(); }
  size_t size() const { return communicators_.size(); }
  bool between_devices() const { return control_ != nullptr; }
  // Returns the communicator for this rank's host memory. REQUIRES: Connect succeeded.
  collective::Communicator& hosts() const;
  // Returns communicator number `i` modulo size(). REQUIRES: !empty().
  collective::Communicator& Numbered(size_t i) const;

 private:
  Status ConnectHosts(const collective::WorldConfig& world,
                      const std::vector<ReducedBucket>& reduced);
  Status ConnectDevices(Device& device, const collective::WorldConfig& world);
  Status AgreeOnJob();
  // Returns the launcher's name of the process that has rank `rank`.
  std::string Process(int rank) const;

  const CollectiveOptions& options_;
  // The order of the next members ensures that nccl_ and control_ outlive communicators_.
  collective::NcclLibrary nccl_{};
  // The communicator for host memory if communicators_ communicate device memory; otherwise null.
  std::unique_ptr<collective::Communicator> control_;
  std::vector<std::unique_ptr<collective::Communicator>> communicators_;
};

}  // namespace tandem::trainer
