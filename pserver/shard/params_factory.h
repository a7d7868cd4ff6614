// Makes the parameters of a shard from a configuration.
#pragma once

#include <memory>

#include "pserver/shard/shard_options.h"
#include "pserver/state/shard_config.h"
#include "pserver/tables/shard_params.h"

namespace tandem::pserver {

// Constant, and therefore thread-safe.
class ParamsFactory {
 public:
  // All must outlive it.
  ParamsFactory(const ShardOptions& options, const Backend& backend, Device& device)
      : options_(options), backend_(backend), device_(device) {}

  // FAILED_PRECONDITION: the options are for another job or number of trainers.
  Status Check(const ShardConfig& config) const;
  // Parameters without values.
  StatusOr<std::unique_ptr<ShardParams>> Make(const ShardConfig& config) const;

 private:
  const ShardOptions& options_;
  const Backend& backend_;
  Device& device_;
};

}  // namespace tandem::pserver
