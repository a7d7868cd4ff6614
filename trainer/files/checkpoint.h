// Checkpoints of a training job in one directory:
//
//   DIR/step-00000123/model.safetensors   parameters, without metadata: its sha256sum is
//                                         Sha256Params()
//                     state.safetensors   optimizer slots and other state
//                     tables.rows         rows of tables that are stored only on pservers; absent
//                     if
//                                         there are none (trainer/ps/table_file.h)
//                     manifest.pbtxt      CheckpointManifest (proto/checkpoint.proto), text form
//
// A checkpoint is written as step-00000123.tmp, synced, and renamed last. A directory without .tmp
// is therefore complete, even after a crash of the process or the machine. A load verifies sizes
// and SHA-256: it detects a damaged checkpoint and uses the previous one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/predecessor.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

inline constexpr const char* kTableFile = "tables.rows";

struct Checkpoint {
  std::string job;           // JobConfig.name
  uint64_t step = 0;         // global steps done
  uint64_t epoch = 0;        // epoch of that step, from 0
  uint64_t epoch_step = 0;   // batches of that epoch already consumed
  uint64_t seed = 0;         // JobConfig.seed
  std::string job_config;    // the effective job, text form
  uint64_t epoch_steps = 0;  // batches of an epoch; 0: unknown
  TensorMap params;
  TensorMap state;
  std::string tables;  // after a load: path of tables.rows; "": none
  // For a save: writes tables.rows; empty: no tables.
  std::function<Status(const std::string& path)> write_tables;
};

// A directory may have one writer at a time (rank 0 of a job) and any number of readers. Not
// thread-safe.
class CheckpointStore {
 public:
  // `keep` >= 1: number of checkpoints to keep. Touches no file before the first call.
  CheckpointStore(std::string dir, int keep);

  // Creates the directory. PERMISSION_DENIED: it cannot be created, or its files cannot be written.
  Status Prepare() const;
  // Creates and locks the directory for this job while the object lives. Another job would remove
  // this job's checkpoints as old ones. Waits up to `patience` for a killed predecessor to release
  // the lock. FAILED_PRECONDITION: the directory is still locked. No locking on file systems
  // without flock.
  Status Claim(Duration patience = kPredecessorPatience);

  // Writes the checkpoint of checkpoint.step, replaces one of the same step, and makes it durable.
  // Then removes all but the newest `keep` checkpoints up to this step, and the remains of
  // interrupted writes. Creates the directory. RESOURCE_EXHAUSTED: the disk is full; existing files
  // are unchanged. Failures to remove old checkpoints are appended to `warnings`.
  Status Save(const Checkpoint& checkpoint, std::vector<std::string>* warnings);

  // Loads the newest complete and undamaged checkpoint. Each newer, unusable one adds a line to
  // `warnings`. NOT_FOUND: the directory is absent or has no checkpoint. PERMISSION_DENIED: it
  // cannot be read. DATA_LOSS: it has checkpoints, but all are unusable.
  StatusOr<Checkpoint> LoadNewest(Device& device, std::vector<std::string>* warnings) const;

  // Steps of the checkpoints in the directory, ascending; their content is not verified. Empty: the
  // directory is absent. PERMISSION_DENIED: it cannot be read. A job that does not resume must not
  // write into a directory with later steps of another run: they would stay the newest.
  StatusOr<std::vector<uint64_t>> Steps() const;

  const std::string& dir() const { return dir_; }

 private:
  std::string PathOf(uint64_t step) const;
  Status WriteFiles(const std::string& tmp, const Checkpoint& checkpoint) const;
  Status Publish(const std::string& tmp, const std::string& path) const;
  void Prune(uint64_t newest, std::vector<std::string>* warnings) const;

  const std::string dir_;
  const int keep_;
  Fd claim_;  // the locked directory
};

// Reads and verifies one checkpoint directory (".../step-00000123"). NOT_FOUND: no manifest.
// DATA_LOSS: a file is missing, or has the wrong size, hash or format; the message names it.
// INVALID_ARGUMENT: the manifest names files outside the directory.
StatusOr<Checkpoint> LoadCheckpoint(const std::string& path, Device& device);

}  // namespace tandem::trainer
