// A cache of code that was compiled for a device. Each kernel is compiled once per cache. If the
// cache has a directory, later processes also use the stored code.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::ops {

// Compiled code by key, in memory and optionally in files. Must be used by one thread only.
class CodeCache {
 public:
  // `folder`: directory with one file per entry, created with mode 0700 when the first file is
  // written. Its files may be deleted at any time. Empty: nothing is stored. Stored code is
  // executed. Therefore the cache replaces a file that belongs to another user or that other users
  // may write. The cache rejects a directory with such permissions, and TakeNotes reports this
  // (OwnRule::kUser).
  explicit CodeCache(std::string folder = "") : folder_(std::move(folder)) {}

  template <typename T>
  struct Compiled {
    std::shared_ptr<T> code;
    std::string bytes;  // serialised code; empty: the code cannot be stored
  };
  // Returns the code for `key`, which contains device, library, versions and source. The first call
  // for a key calls `load`(bytes) with stored code; `load` returns StatusOr<shared_ptr<T>>. If
  // there is no stored code or `load` fails, calls `compile`(), which returns
  // StatusOr<Compiled<T>>. An error of `compile` is also returned by all later calls with this key.
  template <typename T, typename Load, typename Compile>
  StatusOr<std::shared_ptr<T>> Get(const std::string& key, const Load& load,
                                   const Compile& compile);

  // Returns lines about the time since the last call of TakeNotes: how much code was compiled, how
  // much code was found, and why code could not be stored. "": nothing to report.
  std::string TakeNotes();

 private:
  std::optional<std::string> Kept(std::string_view key);
  void Keep(std::string_view key, std::string_view bytes);
  std::string PathOf(std::string_view key) const;

  const std::string folder_;
  std::map<std::string, StatusOr<std::shared_ptr<void>>> code_;
  int compiled_ = 0, known_ = 0;
  double seconds_ = 0;  // time spent on compiling, in seconds
  bool keeps_ = true;   // false after an entry could not be stored; no further entry is stored
  Status refused_;      // why an entry could not be stored or read, until TakeNotes reports it
};

template <typename T, typename Load, typename Compile>
StatusOr<std::shared_ptr<T>> CodeCache::Get(const std::string& key, const Load& load,
                                            const Compile& compile) {
  if (const auto known = code_.find(key); known != code_.end()) {
    TD_RETURN_IF_ERROR(known->second.status());
    return std::static_pointer_cast<T>(*known->second);
  }
  if (const auto bytes = Kept(key); bytes.has_value()) {
    const StatusOr<std::shared_ptr<T>> loaded = load(*bytes);
    if (loaded.ok()) {
      ++known_;
      code_.emplace(key, *loaded);
      return *loaded;
    }
  }
  const Time begin = SteadyNow();
  const StatusOr<Compiled<T>> made = compile();
  if (!made.ok()) {
    code_.emplace(key, made.status());
    return made.status();
  }
  seconds_ += Seconds(SteadyNow() - begin);
  ++compiled_;
  if (!made->bytes.empty()) Keep(key, made->bytes);
  code_.emplace(key, made->code);
  return made->code;
}

}  // namespace tandem::ops
