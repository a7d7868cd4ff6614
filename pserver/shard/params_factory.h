// Makes the parameters of a shard from a configuration.
#pragma once

#include <memory>

#include "pserver/shard/shard_options.h"
#include "pserver/state/shard_config.h"
#include "pserver/tables/shard_params.h"

namespace tandem::pserver {

// Makes the parameters of one shard. Constant after construction, and therefore thread-safe.
class ParamsFactory {
 public:
  // All arguments must outlive this object.
  ParamsFactory(const ShardOptions& options, const exec::Backend& backend, Device& device)
      : options_(options), backend_(backend), device_(device) {}

  // Checks the configuration. FAILED_PRECONDITION: ShardOptions name another job or another number
  // of trainers.
  Status Check(const ShardConfig& config) const;
  // Allocates memory for the parameters, but sets no values.
  StatusOr<std::unique_ptr<ShardParams>> Make(const ShardConfig& config) const;

 private:
  const ShardOptions& options_;
  const exec::Backend& backend_;
  Device& device_;
};

}  // namespace tandem::pserver
