#include "pserver/rocksdb/acknowledged_version.h"

#include "absl/strings/numbers.h"
#include "common/os/files.h"

namespace tandem::pserver {
namespace {

constexpr uint64_t kBytesMax = 64;  // size of the file

}  // namespace

Status AcknowledgedVersion::Write(uint64_t version) const {
  const auto write = [version](const std::string& path) -> Status {
    const std::string text = std::to_string(version) + "\n";
    FileWriter file;
    TD_RETURN_IF_ERROR(file.Open(path));
    TD_RETURN_IF_ERROR(file.Write(text.data(), text.size()));
    return file.SyncAndClose();
  };
  Status written = PublishFiles({{path_, write}});
  if (written.ok() || written.code() == StatusCode::kResourceExhausted) return written;
  return Unavailable("%s", std::string(written.message()));
}

StatusOr<uint64_t> AcknowledgedVersion::Read() const {
  const StatusOr<std::string> text = ReadSmallFile(path_, kBytesMax);
  if (text.status().code() == StatusCode::kNotFound) return uint64_t{0};
  TD_RETURN_IF_ERROR(text.status());
  uint64_t version = 0;
  if (absl::SimpleAtoi(*text, &version)) return version;
  return DataLoss(
      "%s is damaged: it contains no version number [TD2118]; hint: restore a copy of the "
      "directory, or move the directory away to start with an empty state",
      path_);
}

}  // namespace tandem::pserver
