#include "kernels/ops/cuda/code_cache.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>

#include "common/base/crc32c.h"
#include "common/base/rng.h"
#include "common/os/files.h"
#include "common/os/own_files.h"

namespace tandem::ops {
namespace {

// A file contains this line, the CRC32C of all bytes after the CRC, the length of the key in bytes,
// the key, and the code.
constexpr std::string_view kHeader = "tandem: compiled code, version 1\n";
constexpr uint64_t kBytesMax = uint64_t{64} << 20;

std::string ToText(std::string_view key, std::string_view bytes) {
  std::string rest = absl::StrFormat("%016x", key.size());
  rest.append(key).append(bytes);
  return absl::StrFormat("%s%08x", kHeader, Crc32c(0, rest.data(), rest.size())) + rest;
}

}  // namespace

std::string CodeCache::PathOf(std::string_view key) const {
  return absl::StrFormat("%s/%016x.code", folder_, StableHash(key));
}

// Returns the stored code for `key`. nullopt: there is no usable file; for example, the file is
// damaged or has another key with the same hash.
std::optional<std::string> CodeCache::Kept(std::string_view key) {
  if (folder_.empty()) return std::nullopt;
  const Status own = OpenOwnDir(folder_, OwnRule::kUser).status();
  const StatusOr<std::string> text =
      own.ok() ? ReadOwnFile(PathOf(key), kBytesMax, OwnRule::kUser) : own;
  if (text.status().code() == StatusCode::kPermissionDenied) refused_ = text.status();
  if (!text.ok()) return std::nullopt;
  const std::string begin = ToText(key, "");
  if (text->size() < begin.size()) return std::nullopt;
  std::string bytes = text->substr(begin.size());
  return *text == ToText(key, bytes) ? std::optional(std::move(bytes)) : std::nullopt;
}

// Several processes may store the same code at the same time. Each process writes its own temporary
// file and renames it. The last rename wins.
void CodeCache::Keep(std::string_view key, std::string_view bytes) {
  if (folder_.empty() || !keeps_) return;
  const std::string path = PathOf(key);
  std::random_device random;
  const std::string draft = absl::StrFormat("%s.%08x%08x.new", path, random(), random());
  const Status own = MakeOwnDir(folder_, OwnRule::kUser).status();
  refused_ = own.ok() ? WriteOwnFile(draft, ToText(key, bytes)) : own;
  if (refused_.ok() && std::rename(draft.c_str(), path.c_str()) != 0) {
    refused_ = FileError(path, "cannot be replaced", errno);
  }
  std::error_code error;
  if (!refused_.ok() && own.ok()) std::filesystem::remove(draft, error);
  keeps_ = refused_.ok();
}

std::string CodeCache::TakeNotes() {
  std::string notes;
  if (compiled_ + known_ > 0) {
    notes = absl::StrFormat("code for the device: %d compiled (%.1f s), %d known%s\n", compiled_,
                            seconds_, known_, folder_.empty() ? "" : " in " + folder_);
  }
  if (!refused_.ok()) {
    absl::StrAppend(&notes, "warning: what was compiled is not kept: ", ToString(refused_), "\n");
  }
  refused_ = OkStatus();
  compiled_ = known_ = 0;
  seconds_ = 0;
  return notes;
}

}  // namespace tandem::ops
