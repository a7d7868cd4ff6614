// Errors in a file, a flag or a setting, for the user: location, message, excerpt, hint.
//   job.pbtxt:14:3: error: DistributedStrategy has no field "fuse_all_reduce"
//     fuse_all_reduce: true
//     ^
//   hint: did you mean "fuse_all_reduce_ops"?
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace tandem::strategy {

// The location that a message refers to. If line is 0, only `file` is shown; it may then be any
// name of the source: "flag --a_sync", "environment CPU_NUM".
struct SourcePlace {
  std::string file;
  int line = 0;         // from 1; 0: none
  int column = 0;       // from 1
  std::string excerpt;  // the line, tabs expanded, without its end; empty: not shown

  std::string ToString() const;  // "job.pbtxt:14:3", or just the file
};

struct Diagnostic {
  enum class Severity { kError, kNote };
  Severity severity = Severity::kError;
  SourcePlace place;
  std::string message;
  std::string hint;  // empty: none

  std::string ToString() const;  // ends with a newline
};

// A list of all errors and notes. Not thread-safe.
class Diagnostics {
 public:
  // Most errors, and most notes, that are stored; further ones are only counted.
  static constexpr int64_t kKeptMax = 100;

  // An empty `hint` is replaced with the one that SplitHint finds in `message`.
  void Error(const SourcePlace& place, const std::string& message, const std::string& hint = "");
  // Adds information for the user that does not stop the job.
  void Note(const SourcePlace& place, const std::string& message, const std::string& hint = "");

  bool ok() const { return errors_ == 0; }
  int64_t errors() const { return errors_; }
  bool full() const { return errors_ >= kKeptMax; }
  const std::vector<Diagnostic>& entries() const { return entries_; }

  // Entries of a file are sorted by line and column; entries without a line follow. The last line
  // says how many were not stored.
  std::string ErrorText() const;
  std::string NoteText() const;
  // Returns OK if there are no errors, else INVALID_ARGUMENT with ErrorText().
  Status status() const;

 private:
  std::string Text(Diagnostic::Severity severity) const;

  std::vector<Diagnostic> entries_;
  int64_t errors_ = 0;
  int64_t notes_ = 0;
};

}  // namespace tandem::strategy
