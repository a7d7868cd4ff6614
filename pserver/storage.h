// Where a shard's checkpoints are kept. An interface, so that tests and the simulator can bring a
// store that forgets or fails.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "pserver/shard_types.h"

namespace tandem {

// Thread-safe.
class Storage {
 public:
  virtual ~Storage() = default;
  // Replaces the checkpoint by this one: after a crash at any moment there is the old one or the
  // new one, whole, and once this returned OK it is the new one (synced). Gives the bytes written.
  // RESOURCE_EXHAUSTED, with nothing changed, when less space is free than the floor.
  virtual StatusOr<size_t> Write(const ShardImage& image) = 0;
  // nullopt when there is none. DATA_LOSS when it is damaged or older than the last one
  // acknowledged: it is then never loaded.
  virtual StatusOr<std::optional<ShardImage>> Read() = 0;
};

// RocksDB in folder `dir` (made when missing). UNAVAILABLE when another process has it open.
// `free_bytes_min`: so much stays free on the disk in any case; RocksDB as Debian builds it aborts
// the process on a full disk (measured), so it must never see one.
StatusOr<std::unique_ptr<Storage>> OpenRocksdbStorage(const std::string& dir,
                                                      uint64_t free_bytes_min = 64 << 20);

}  // namespace tandem
