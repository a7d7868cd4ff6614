// The checkpoints of a training job, in one directory:
//
//   DIR/step-00000123/model.safetensors   parameters, without metadata: its sha256sum is
//                                         Sha256Params()
//                     state.safetensors   optimizer slots and other state
//                     tables.rows         rows of tables that are stored only on pservers;
//                                         absent without such tables (trainer/ps/table_file.h)
//                     manifest.pbtxt      CheckpointManifest (proto/checkpoint.proto), text form
//
// The store writes a checkpoint as step-00000123.tmp, syncs it, and then renames it. A directory
// without .tmp is therefore complete, even after a crash of the process or the machine. A load
// verifies sizes and SHA-256. If a checkpoint is damaged, the load uses the previous checkpoint.
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
  std::string job;           // name of the job (JobConfig.name)
  uint64_t step = 0;         // steps of the job done before the checkpoint
  uint64_t epoch = 0;        // epoch of `step`, from 0
  uint64_t epoch_step = 0;   // batches of `epoch` that are already consumed
  uint64_t seed = 0;         // seed of the job (JobConfig.seed)
  std::string job_config;    // the effective job file, in protobuf's text form
  uint64_t epoch_steps = 0;  // number of batches of an epoch; 0: unknown
  TensorMap params;
  TensorMap state;
  std::string tables;  // path of tables.rows after a load; "": the checkpoint lacks this file
  // Writes tables.rows to the path. Only CheckpointStore::Save calls write_tables. Empty: the job
  // has no tables that are stored only on pservers.
  std::function<Status(const std::string& path)> write_tables;
};

// Writes and loads the checkpoints of one directory. A directory may have one writer at a time
// (rank 0 of a job) and any number of readers. Not thread-safe.
class CheckpointStore {
 public:
  // `keep` >= 1: number of checkpoints to keep. The constructor does not access the directory.
  CheckpointStore(std::string dir, int keep);

  // Creates the directory. PERMISSION_DENIED: the directory cannot be created, or files in it
  // cannot be written.
  Status Prepare() const;
  // Creates the directory and locks it for this job until this object is destroyed. Without the
  // lock, another job would remove this job's checkpoints as old ones. Waits up to `patience` for a
  // killed predecessor to release the lock. FAILED_PRECONDITION: another process still has the
  // lock. On a file system without flock, returns OK without a lock.
  Status Claim(Duration patience = kPredecessorPatience);

  // Writes the checkpoint of checkpoint.step and makes it durable. Creates the directory if it is
  // absent. Replaces a checkpoint of the same step. Then removes the remains of interrupted writes,
  // and all checkpoints up to this step except the newest `keep`. RESOURCE_EXHAUSTED: the disk is
  // full; existing files are unchanged. A failure to remove an old checkpoint is no error; it adds
  // a line to `warnings`.
  Status Save(const Checkpoint& checkpoint, std::vector<std::string>* warnings);

  // Loads the newest complete and undamaged checkpoint. Adds a line to `warnings` for each newer
  // checkpoint that is unusable. NOT_FOUND: the directory is absent or has no checkpoint.
  // PERMISSION_DENIED: the directory cannot be read. DATA_LOSS: all checkpoints of the directory
  // are unusable.
  StatusOr<Checkpoint> LoadNewest(Device& device, std::vector<std::string>* warnings) const;

  // Returns the steps of the checkpoints in the directory, ascending. Does not verify the content
  // of the checkpoints. The list is empty if the directory is absent. PERMISSION_DENIED: the
  // directory cannot be read. A job that does not resume must not write into a directory with later
  // steps of another run, because those steps would remain the newest.
  StatusOr<std::vector<uint64_t>> Steps() const;

  const std::string& dir() const { return dir_; }

 private:
  std::string PathOf(uint64_t step) const;
  Status WriteFiles(const std::string& tmp, const Checkpoint& checkpoint) const;
  Status Publish(const std::string& tmp, const std::string& path) const;
  void Prune(uint64_t newest, std::vector<std::string>* warnings) const;

  const std::string dir_;
  const int keep_;
  Fd claim_;  // the locked directory; invalid: not locked
};

// Reads and verifies one checkpoint directory (".../step-00000123"). NOT_FOUND: the directory has
// no manifest. DATA_LOSS: a file is missing, or has the wrong size, hash or format; the message
// names the file. INVALID_ARGUMENT: the manifest names files outside the directory.
StatusOr<Checkpoint> LoadCheckpoint(const std::string& path, Device& device);

}  // namespace tandem::trainer
