// Checkpoints of a training job in one folder:
//
//   DIR/step-00000123/model.safetensors   parameters, without metadata: its sha256sum is
//   Sha256Params()
//                     state.safetensors   optimizer slots and other state
//                     tables.rows         rows of tables that pservers keep alone, where there are
//                                         some (trainer/ps/table_file.h)
//                     manifest.pbtxt      CheckpointManifest (proto/checkpoint.proto), text form
//
// A checkpoint is written as step-00000123.tmp, synced, and renamed last: a folder without .tmp is
// whole, whenever the process or the machine died. Sizes and SHA-256 are compared again at load, so
// that a damaged checkpoint is found out and the one before it is taken.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/fd.h"
#include "common/base/predecessor.h"
#include "common/base/status.h"
#include "trainer/files/safetensors.h"

namespace tandem {

inline constexpr const char* kTableFile = "tables.rows";

struct Checkpoint {
  std::string job;           // JobConfig.name
  uint64_t step = 0;         // global steps done
  uint64_t epoch = 0;        // the epoch that step is in, from 0
  uint64_t epoch_step = 0;   // batches of that epoch already consumed
  uint64_t seed = 0;         // JobConfig.seed
  std::string job_config;    // the effective job, text form
  uint64_t epoch_steps = 0;  // batches of an epoch; 0: not known
  TensorMap params;
  TensorMap state;
  std::string tables;  // as loaded: path of tables.rows; "" without one
  // To be saved: writes tables.rows; empty without one.
  std::function<Status(const std::string& path)> write_tables;
};

// One writer to a folder at a time (rank 0 of a job), any number of readers. Not thread-safe.
class CheckpointStore {
 public:
  // `keep` >= 1: how many checkpoints stay. Nothing is touched before the first call.
  CheckpointStore(std::string dir, int keep);

  // Creates the folder. PERMISSION_DENIED when that fails, or when files cannot be written there.
  Status Prepare() const;
  // Creates the folder, which is this job's alone while the object lives: another one would remove
  // its checkpoints as old ones. Waits up to `patience` for a predecessor that was killed, then
  // FAILED_PRECONDITION. A file system without locks (flock) has none.
  Status Claim(Duration patience = kPredecessorPatience);

  // Writes the checkpoint of checkpoint.step (in place of one of the same step), makes it
  // permanent, then removes all but the newest `keep` of those up to this step, and leftovers of
  // interrupted writes. Creates the folder. RESOURCE_EXHAUSTED when the disk is full: what was
  // there before is untouched. Failures to remove old ones are appended to `warnings`.
  Status Save(const Checkpoint& checkpoint, std::vector<std::string>* warnings);

  // The newest checkpoint that is whole and undamaged. Each newer one that is not adds a line to
  // `warnings`. NOT_FOUND when the folder is absent or has no checkpoint at all; PERMISSION_DENIED
  // when it cannot be read; DATA_LOSS when it has some, but none can be used.
  StatusOr<Checkpoint> LoadNewest(Device& device, std::vector<std::string>* warnings) const;

  // Steps of the checkpoints in the folder, ascending; they may turn out damaged. Empty when the
  // folder is absent; PERMISSION_DENIED when it cannot be read. A job that does not resume must not
  // write where later steps of another run lie: they would stay the newest.
  StatusOr<std::vector<uint64_t>> Steps() const;

  const std::string& dir() const { return dir_; }

 private:
  std::string PathOf(uint64_t step) const;
  Status WriteFiles(const std::string& tmp, const Checkpoint& checkpoint) const;
  Status Publish(const std::string& tmp, const std::string& path) const;
  void Prune(uint64_t newest, std::vector<std::string>* warnings) const;

  const std::string dir_;
  const int keep_;
  Fd claim_;  // the folder, locked
};

// Reads and verifies one checkpoint folder (".../step-00000123"). NOT_FOUND without a manifest;
// DATA_LOSS naming the file that is missing, or has another size, hash or format than it should;
// INVALID_ARGUMENT for a manifest that names files outside of the folder.
StatusOr<Checkpoint> LoadCheckpoint(const std::string& path, Device& device);

}  // namespace tandem
