#include "trainer/config/job_device.h"

#include <cstring>

#include "common/base/check.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"

namespace tandem::trainer {
namespace {

Status CheckDevice(const JobConfig& config, const RankInfo& rank) {
  const auto refuse = [&config](const std::string& what) {
    return Unimplemented("--place=%s is not implemented together with %s [TD1109]", config.place(),
                         what);
  };
  const DistributedStrategy& strategy = config.strategy();
  const Mode mode = config.mode();
  if (mode == LOCAL && rank.size > 1) {
    return refuse("several ranks in mode LOCAL; hint: use --mode=collective");
  }
  if (mode == PSERVER && PlacesOf(config) > 1) return refuse("cpu_num above 1 in mode PSERVER");
  if (rank.peers_return) return refuse("the replacement of lost ranks");
  if (strategy.allreduce_choice() == DistributedStrategy::ByModel) {
    return refuse("allreduce_choice ByModel (NCCL chooses its algorithms itself)");
  }
  if (strategy.deterministic() && rank.size > 2) {
    return refuse("deterministic with more than two ranks (NCCL determines the order of sums)");
  }
  return OkStatus();
}

// Returns the device of this rank. With place "cuda", on a host with N devices, the device has the
// number local_rank modulo N. If two ranks get the same device, NCCL reports the error.
StatusOr<Place> PlaceOf(const JobConfig& config, const RankInfo& rank, const exec::Backend& backend,
                        Place place) {
  if (place.kind == PlaceKind::kCpu || config.place().find(':') != std::string::npos) return place;
  TD_ASSIGN_OR_RETURN(const int devices, backend.DeviceCount());
  CHECK_GT(devices, 0);
  place.index = rank.local_rank % devices;
  return place;
}

DeviceMemoryOptions MemoryOf(const JobConfig& config) {
  const RuntimeFlags& flags = config.strategy().runtime_flags();
  const auto bytes = [](int64_t mb) { return static_cast<size_t>(mb) << 20; };
  return {.fraction = flags.fraction_of_gpu_memory_to_use(),
          .first_bytes = bytes(flags.initial_gpu_memory_in_mb()),
          .more_bytes = bytes(flags.reallocate_gpu_memory_in_mb()),
          .limit_bytes = bytes(flags.gpu_memory_limit_mb())};
}

class PinnedMemory final : public Device {
 public:
  explicit PinnedMemory(const exec::Backend& backend) : backend_(backend) {}
  Place place() const override { return {}; }
  StatusOr<Buffer> Allocate(size_t bytes) override { return backend_.AllocatePinned(bytes); }
  Status CopyFromHost(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return OkStatus();
  }
  Status CopyToHost(void* to, const void* from, size_t bytes) override {
    return CopyFromHost(to, from, bytes);
  }
  Status Synchronize() override { return OkStatus(); }

 private:
  const exec::Backend backend_;
};

}  // namespace

StatusOr<JobDevice> OpenJobDevice(const JobConfig& config, const RankInfo& rank) {
  TD_ASSIGN_OR_RETURN(Place place, ParsePlace(config.place()));
  StatusOr<exec::Backend> backend = exec::Backend::For(place);
  if (!backend.ok()) {
    return InvalidArgument("--place=%s cannot be used: %s", config.place(),
                           std::string(backend.status().message()));
  }
  if (place.kind != PlaceKind::kCpu) TD_RETURN_IF_ERROR(CheckDevice(config, rank));
  JobDevice opened{*std::move(backend), nullptr, nullptr};
  TD_ASSIGN_OR_RETURN(place, PlaceOf(config, rank, opened.backend, place));
  TD_ASSIGN_OR_RETURN(opened.device, opened.backend.MakeDevice(place.index, MemoryOf(config)));
  if (place.kind == PlaceKind::kCpu) {
    opened.batch_memory = std::make_unique<CpuDevice>();
  } else {
    opened.batch_memory = std::make_unique<PinnedMemory>(opened.backend);
  }
  DCHECK(opened.device != nullptr && opened.batch_memory != nullptr);
  return opened;
}

}  // namespace tandem::trainer
