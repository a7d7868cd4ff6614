// Builds the parameters of a shard from a snapshot that arrives in chunks. Meanwhile the shard
// serves its old parameters.
#pragma once

#include <functional>
#include <memory>

#include "pserver/shard/params_factory.h"
#include "pserver/storage/snapshot_chunks.h"

namespace tandem::pserver {

// Sends a snapshot to a sink, as Storage::Read does.
using SnapshotReader = std::function<Status(SnapshotSink&)>;

// Receives a snapshot and builds parameters from it. Not thread-safe.
class SnapshotLoader final : public SnapshotSink {
 public:
  // `server`: index of this server. `factory` must outlive this object.
  SnapshotLoader(const ParamsFactory& factory, int server) : factory_(factory), server_(server) {}

  Status Begin(ShardSnapshot head) override;
  Status Take(SnapshotChunk chunk) override;

  // The received snapshot without its values.
  const ShardSnapshot& header() const { return header_; }
  // Returns the parameters. Called at most once. REQUIRES: all chunks were received, and their
  // sender reported no error.
  std::unique_ptr<ShardParams> TakeParams();

 private:
  const ParamsFactory& factory_;
  const int server_;
  ShardSnapshot header_;
  std::unique_ptr<ShardParams> params_;
};

}  // namespace tandem::pserver
