#include "pserver/shard/params_factory.h"

namespace tandem::pserver {

Status ParamsFactory::Check(const ShardConfig& config) const {
  if (!options_.job.empty()) TD_RETURN_IF_ERROR(CheckJob(config.job, options_.job));
  if (options_.trainers != 0 && config.trainers != options_.trainers) {
    return FailedPrecondition(
        "the caller has %d trainers, but this server was started for %d trainers [TD4003]; hint: "
        "use the same number for --trainers and --workers",
        config.trainers, options_.trainers);
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<ShardParams>> ParamsFactory::Make(const ShardConfig& config) const {
  const bool own = options_.slices.device != nullptr;
  return ShardParams::Make(config, {.slice_backend = own ? *options_.slices.backend : backend_,
                                    .slice_device = own ? *options_.slices.device : device_,
                                    .row_backend = backend_,
                                    .row_device = device_,
                                    .arena = options_.arena,
                                    .table_memory = options_.table_memory,
                                    .workers = options_.workers});
}

}  // namespace tandem::pserver
