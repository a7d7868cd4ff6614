#include "trainer/files/checkpoint.h"

#include <fcntl.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/os/files.h"
#include "common/os/own_files.h"
#include "proto/checkpoint.pb.h"
#include "trainer/files/sha256.h"

namespace tandem::trainer {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kFormat = 1;
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kStateFile = "state.safetensors";
constexpr const char* kManifestFile = "manifest.pbtxt";
constexpr const char* kPrefix = "step-";
constexpr const char* kTmp = ".tmp";
constexpr uint64_t kManifestBytesMax = uint64_t{16} << 20;

std::string DirName(uint64_t step) { return absl::StrFormat("%s%08d", kPrefix, step); }

// Returns the step of a directory name like "step-00000123"; nullopt: `name` has another form.
std::optional<uint64_t> StepOf(const std::string& name) {
  const std::string prefix = kPrefix;
  if (name.size() <= prefix.size() || name.compare(0, prefix.size(), prefix) != 0) return {};
  if (name.size() > prefix.size() + 19) return {};
  uint64_t step = 0;
  for (char c : name.substr(prefix.size())) {
    if (c < '0' || c > '9') return {};
    step = step * 10 + static_cast<uint64_t>(c - '0');
  }
  if (name != DirName(step)) return {};
  return step;
}

// Returns the names of the entries of `dir`; no names if `dir` is absent. Returns an error if `dir`
// cannot be read. If an unreadable directory were treated as empty, the job would start from step
// 0.
StatusOr<std::vector<std::string>> Entries(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return PermissionDenied("%s: the checkpoint directory cannot be read (%s) [TD2106]", dir,
                            error.message());
  }
  return names;
}

// Returns the size of all files in `dir`, in bytes.
uint64_t BytesOf(const std::string& dir) {
  uint64_t bytes = 0;
  for (const std::string& name : ListDir(dir).value_or(std::vector<std::string>())) {
    std::error_code error;
    const uintmax_t size = fs::file_size(dir + "/" + name, error);
    if (!error) bytes += size;
  }
  return bytes;
}

// Returns whether `name` is a plain file name, without a path and without a leading dot. Such a
// file is directly in the checkpoint's directory.
bool IsPlainName(const std::string& name) {
  if (name.empty() || name.size() > 100 || name[0] == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

// Keeps the first error that the parser of protobuf's text format reports.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (text.empty()) text = absl::StrFormat("%d:%d: %s", line + 1, column + 1, message);
  }
  std::string text;
};

StatusOr<CheckpointManifest> ReadManifest(const std::string& path) {
  const std::string file = path + "/" + kManifestFile;
  TD_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(file, kManifestBytesMax));
  CheckpointManifest manifest;
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &manifest)) {
    return DataLoss("%s is damaged, because the content cannot be parsed: %s [TD2102]", file,
                    error.text);
  }
  if (manifest.format() != kFormat) {
    return DataLoss(
        "%s has format %d, but this program reads format %d [TD2102]; hint: use the version of "
        "Tandem that wrote the checkpoint",
        file, manifest.format(), kFormat);
  }
  return manifest;
}

Status VerifyFile(const std::string& path, const CheckpointFile& entry) {
  if (!IsPlainName(entry.name())) {
    return InvalidArgument(
        "%s/%s: the file name \"%s\" is not allowed: a checkpoint may contain only files of its "
        "own directory [TD2102]",
        path, kManifestFile, entry.name());
  }
  const std::string file = path + "/" + entry.name();
  FileReader reader;
  TD_RETURN_IF_ERROR(reader.Open(file));
  if (reader.bytes() != entry.bytes()) {
    return DataLoss("%s has %d bytes, but the manifest says %d bytes [TD2102]", file,
                    reader.bytes(), entry.bytes());
  }
  TD_ASSIGN_OR_RETURN(const std::string sha256, Sha256File(file));
  if (sha256 != entry.sha256()) {
    return DataLoss("%s is damaged: its sha256 is %s, but the manifest says %s [TD2102]", file,
                    sha256, entry.sha256());
  }
  return OkStatus();
}

}  // namespace

StatusOr<Checkpoint> LoadCheckpoint(const std::string& path, Device& device) {
  TD_ASSIGN_OR_RETURN(const CheckpointManifest manifest, ReadManifest(path));
  bool model = false, state = false, tables = false;
  for (const CheckpointFile& entry : manifest.file()) {
    TD_RETURN_IF_ERROR(VerifyFile(path, entry));
    model |= entry.name() == kModelFile;
    state |= entry.name() == kStateFile;
    tables |= entry.name() == kTableFile;
  }
  if (!model || !state) {
    return DataLoss("%s/%s does not list the file %s [TD2102]", path, kManifestFile,
                    model ? kStateFile : kModelFile);
  }
  TD_ASSIGN_OR_RETURN(Safetensors params, ReadSafetensors(path + "/" + kModelFile, device));
  TD_ASSIGN_OR_RETURN(Safetensors states, ReadSafetensors(path + "/" + kStateFile, device));
  return Checkpoint{manifest.job(),
                    manifest.step(),
                    manifest.epoch(),
                    manifest.epoch_step(),
                    manifest.seed(),
                    manifest.job_config(),
                    manifest.epoch_steps(),
                    std::move(params.tensors),
                    std::move(states.tensors),
                    tables ? path + "/" + kTableFile : "",
                    {}};
}

CheckpointStore::CheckpointStore(std::string dir, int keep) : dir_(std::move(dir)), keep_(keep) {
  CHECK_GE(keep_, 1);
}

std::string CheckpointStore::PathOf(uint64_t step) const { return dir_ + "/" + DirName(step); }

StatusOr<std::vector<uint64_t>> CheckpointStore::Steps() const {
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> names, Entries(dir_));
  std::vector<uint64_t> steps;
  for (const std::string& name : names) {
    if (const auto step = StepOf(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

StatusOr<Checkpoint> CheckpointStore::LoadNewest(Device& device,
                                                 std::vector<std::string>* warnings) const {
  TD_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, Steps());
  if (steps.empty())
    return NotFound(
        "directory %s contains no checkpoint [TD2101]; hint: name the checkpoint.dir of a job",
        dir_);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    StatusOr<Checkpoint> checkpoint = LoadCheckpoint(PathOf(*step), device);
    if (checkpoint.ok() && checkpoint->step != *step) {
      checkpoint = DataLoss("the manifest of %s is for another step, %d [TD2102]", PathOf(*step),
                            checkpoint->step);
    }
    if (checkpoint.ok()) return checkpoint;
    // The checkpoint may be good: this process lacks files or memory to read it.
    if (checkpoint.status().code() == StatusCode::kResourceExhausted) return checkpoint;
    warnings->push_back(
        absl::StrFormat("the checkpoint of step %d is ignored, because it cannot be read: %s",
                        *step, std::string(checkpoint.status().message())));
  }
  return DataLoss(
      "none of the %d checkpoints in %s can be read [TD2103]; the error of the newest is: %s; "
      "hint: choose another checkpoint.dir, or remove these checkpoints to start from step 0",
      steps.size(), dir_, warnings->front());
}

Status CheckpointStore::WriteFiles(const std::string& tmp, const Checkpoint& checkpoint) const {
  CheckpointManifest manifest;
  const auto add_file = [&](const char* name, uint64_t bytes, const std::string& sha256) {
    CheckpointFile* entry = manifest.add_file();
    entry->set_name(name);
    entry->set_bytes(bytes);
    entry->set_sha256(sha256);
  };
  manifest.set_format(kFormat);
  manifest.set_job(checkpoint.job);
  manifest.set_step(checkpoint.step);
  manifest.set_epoch(checkpoint.epoch);
  manifest.set_epoch_step(checkpoint.epoch_step);
  manifest.set_seed(checkpoint.seed);
  manifest.set_job_config(checkpoint.job_config);
  manifest.set_epoch_steps(checkpoint.epoch_steps);
  for (const auto& [name, tensors] :
       {std::pair(kModelFile, &checkpoint.params), std::pair(kStateFile, &checkpoint.state)}) {
    const std::string file = tmp + "/" + name;
    TD_RETURN_IF_ERROR(WriteSafetensors(file, *tensors, {}));
    FileReader written;
    TD_RETURN_IF_ERROR(written.Open(file));
    TD_ASSIGN_OR_RETURN(const std::string sha256, Sha256Params(*tensors));
    add_file(name, written.bytes(), sha256);
  }
  if (checkpoint.write_tables) {
    const std::string file = tmp + "/" + kTableFile;
    TD_RETURN_IF_ERROR(checkpoint.write_tables(file));
    FileReader written;
    TD_RETURN_IF_ERROR(written.Open(file));
    TD_ASSIGN_OR_RETURN(const std::string sha256, Sha256File(file));
    add_file(kTableFile, written.bytes(), sha256);
  }
  std::string text;
  CHECK(google::protobuf::TextFormat::PrintToString(manifest, &text));
  FileWriter file;
  TD_RETURN_IF_ERROR(file.Open(tmp + "/" + kManifestFile));
  TD_RETURN_IF_ERROR(file.Write(text.data(), text.size()));
  TD_RETURN_IF_ERROR(file.SyncAndClose());
  return SyncDir(tmp);
}

// Renames the directory `tmp` to `path`. The checkpoint exists after the rename.
Status CheckpointStore::Publish(const std::string& tmp, const std::string& path) const {
  if (rename(tmp.c_str(), path.c_str()) != 0) {
    // A checkpoint of the same step exists. Publish swaps the old and the new directory, so that a
    // complete checkpoint exists at any time.
    if (errno != ENOTEMPTY && errno != EEXIST) {
      return FileError(path, "cannot be created by a rename", errno);
    }
    if (renameat2(AT_FDCWD, tmp.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
      return DataLoss("cannot replace %s with %s: %s [TD2106]", path, tmp, ErrnoText(errno));
    }
    std::error_code ignored;  // if this removal fails, the next save removes the directory
    fs::remove_all(tmp, ignored);
  }
  return SyncDir(dir_);
}

void CheckpointStore::Prune(uint64_t newest, std::vector<std::string>* warnings) const {
  const auto remove = [&](const std::string& path) {
    std::error_code error;
    // Removes the manifest first. If the removal of the directory is interrupted, the directory has
    // no manifest and does not look complete.
    fs::remove(path + "/" + kManifestFile, error);
    fs::remove_all(path, error);
    if (error) {
      warnings->push_back(absl::StrFormat("cannot remove %s: %s", path, error.message()));
    }
  };
  const auto names = Entries(dir_);
  if (!names.ok()) {
    warnings->push_back(std::string(names.status().message()));
    return;
  }
  std::vector<uint64_t> steps;
  for (const std::string& name : *names) {
    const size_t end = name.size() - std::min(name.size(), std::string(kTmp).size());
    if (name.substr(end) == kTmp && StepOf(name.substr(0, end))) remove(dir_ + "/" + name);
    if (const auto step = StepOf(name); step && *step <= newest) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  for (size_t i = 0; i + static_cast<size_t>(keep_) < steps.size(); ++i) remove(PathOf(steps[i]));
}

Status CheckpointStore::Prepare() const {
  TD_RETURN_IF_ERROR(MakeOwnDir(dir_, OwnRule::kGroup).status());
  if (access(dir_.c_str(), W_OK | X_OK) == 0) return OkStatus();
  return FileError(dir_, "cannot be written to", errno);
}

Status CheckpointStore::Claim(Duration patience) {
  TD_RETURN_IF_ERROR(Prepare());
  Fd dir(open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.valid()) return FileError(dir_, "cannot be opened", errno);
  const auto held = [&] {
    return flock(dir.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  };
  if (!WaitForPreviousInstance(dir_ + ": another process writes checkpoints to this directory",
                               held, patience)) {
    return FailedPrecondition(
        "another process already writes checkpoints to %s [TD2104]; hint: run fuser %s to find it, "
        "or choose another checkpoint.dir",
        dir_, dir_);
  }
  claim_ = std::move(dir);
  return OkStatus();
}

Status CheckpointStore::Save(const Checkpoint& checkpoint, std::vector<std::string>* warnings) {
  TD_RETURN_IF_ERROR(Prepare());
  const Time begin = SteadyNow();
  std::error_code error;
  const std::string path = PathOf(checkpoint.step), tmp = path + kTmp;
  LOG_EVERY_T(INFO, 1.0) << "writing a checkpoint of step " << checkpoint.step << " to " << path;
  fs::remove_all(tmp, error);
  // Only the owner can read the files, unless the owner changes the mode (chmod).
  if (mkdir(tmp.c_str(), 0700) != 0) return FileError(tmp, "cannot be created", errno);
  if (Status status = WriteFiles(tmp, checkpoint); !status.ok()) {
    fs::remove_all(tmp, error);
    return status;
  }
  TD_RETURN_IF_ERROR(Publish(tmp, path));
  LOG_EVERY_T(INFO, 1.0) << "checkpoint of step " << checkpoint.step
                         << " written: " << BytesOf(path) << " bytes in "
                         << Seconds(SteadyNow() - begin) << " s";
  Prune(checkpoint.step, warnings);
  return OkStatus();
}

}  // namespace tandem::trainer
