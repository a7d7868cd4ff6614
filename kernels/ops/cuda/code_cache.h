// What was compiled for a device: once for the equal kernels of a session and, kept in a folder,
// once for the sessions behind it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

// One thread.
class CodeCache {
 public:
  // `folder`: made with mode 0700 when something is to be kept in it, a file each, which may be
  // removed at any time; empty: nothing is kept. What is kept is run: a file of another user, or
  // that others may write, is replaced, and such a folder is refused with a note (OwnRule::kUser).
  explicit CodeCache(std::string folder = "") : folder_(std::move(folder)) {}

  template <typename T>
  struct Compiled {
    std::shared_ptr<T> code;
    std::string bytes;  // what makes the same again; empty: it cannot be kept
  };
  // The code of `key`: device, library, versions and source. The first time it is what
  // `load`(bytes), StatusOr<shared_ptr<T>>, makes of what is kept; where nothing is, or what load
  // refuses, what `compile`(), StatusOr<Compiled<T>>, gives, whose error is that of the key from
  // then on, too.
  template <typename T, typename Load, typename Compile>
  StatusOr<std::shared_ptr<T>> Get(const std::string& key, const Load& load,
                                   const Compile& compile);

  // What was compiled and what was known since the last call, a line each; empty: nothing.
  std::string TakeNotes();

 private:
  std::optional<std::string> Kept(std::string_view key);
  void Keep(std::string_view key, std::string_view bytes);
  std::string PathOf(std::string_view key) const;

  const std::string folder_;
  std::map<std::string, StatusOr<std::shared_ptr<void>>> code_;
  int compiled_ = 0, known_ = 0;
  double seconds_ = 0;  // of compiling
  bool keeps_ = true;   // until the folder refuses
  Status refused_;      // why, until it was told
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

}  // namespace tandem
