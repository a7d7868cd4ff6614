// The keys of a store's records. Numbers have 16 hexadecimal digits, so keys are in the order of
// the numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace tandem::pserver::keys {

inline constexpr const char* kMeta = "meta";              // the checkpoint, a ShardMeta
inline constexpr const char* kTerm = "term";              // a LogTerm
inline constexpr const char* kIncomplete = "incomplete";  // exists while the state is incomplete
// A restore that no checkpoint contains yet (Storage::UnfinishedRestore): "NUMBER SNAPSHOT".
inline constexpr const char* kRestoring = "restoring";
// Number of the global snapshot that was taken or restored last (snapshot_lineage.h).
inline constexpr const char* kHead = "head";
inline constexpr const char* kNothing = "nothing";  // never has a record (StoreWriter)

// The log whose files are valid (LogFiles::Open); absent: 0.
inline constexpr const char* kLogGeneration = "log_generation";
inline constexpr const char* kLogFirst = "log_first";  // number of the first entry of the log

// Each of the following kinds has the keys [kBegin, kEnd). '0' is the character after '/'.
//
// The entries of the log and their times, in stores of an earlier version (old_log.h).
inline constexpr const char *kLogBegin = "log/", *kLogEnd = "log0";
inline constexpr const char *kMarkBegin = "mark/", *kMarkEnd = "mark0";
// A restored state follows entry NUMBER, so later entries are no changes of the state before. The
// value is the number of the restored global snapshot; 0: the checkpoint.
inline constexpr const char *kBreakBegin = "break/", *kBreakEnd = "break0";
inline constexpr const char* kSnapshotBegin = "cut/";  // global snapshots, as ShardMeta

inline std::string Numbered(const char* begin, uint64_t number) {
  return absl::StrFormat("%s%016x", begin, number);
}
inline std::string Log(uint64_t number) { return Numbered(kLogBegin, number); }
inline std::string Snapshot(uint64_t number) { return Numbered(kSnapshotBegin, number); }
// Returns whether `key` is one of the kind `begin`, and sets its number.
inline bool ParseNumbered(std::string_view key, std::string_view begin, uint64_t* number) {
  return key.starts_with(begin) &&
         absl::SimpleHexAtoi(std::string(key.substr(begin.size())), number);
}

}  // namespace tandem::pserver::keys
