#include "trainer/job_device.h"

#include "proto/job.pb.h"

namespace tandem {
namespace {

Status CheckDevice(const JobConfig& config, bool communicates) {
  const auto refuse = [&config](const char* what) {
    return Unimplemented("--place=%s: %s is not built yet", config.place(), what);
  };
  const RuntimeFlags& flags = config.strategy().runtime_flags();
  if (communicates) return refuse("communication between CUDA places (NCCL)");
  if (flags.check_nan_inf()) return refuse("check_nan_inf");
  if (flags.benchmark()) return refuse("benchmark");
  if (!config.profile().dir().empty()) return refuse("profile.dir");
  return OkStatus();
}

}  // namespace

StatusOr<JobDevice> OpenJobDevice(const JobConfig& config, bool communicates) {
  TD_ASSIGN_OR_RETURN(const Place place, ParsePlace(config.place()));
  StatusOr<Backend> backend = Backend::For(place);
  if (!backend.ok()) {
    return InvalidArgument("--place=%s: %s", config.place(),
                           std::string(backend.status().message()));
  }
  if (place.kind != PlaceKind::kCpu) TD_RETURN_IF_ERROR(CheckDevice(config, communicates));
  JobDevice opened{*std::move(backend), nullptr};
  TD_ASSIGN_OR_RETURN(opened.device, opened.backend.MakeDevice(place.index));
  return opened;
}

}  // namespace tandem
