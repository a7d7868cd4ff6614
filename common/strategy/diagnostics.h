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

// The location in a source to which a message refers. If `line` is 0, only `file` is shown. `file`
// may then name any source, such as "flag --a_sync" or "environment CPU_NUM".
struct SourcePlace {
  std::string file;
  int line = 0;    // line number from 1; 0: no line
  int column = 0;  // column number from 1
  // Text of the line, with tabs expanded and without the line end; empty: not shown.
  std::string excerpt;

  std::string ToString() const;  // returns the location, such as "job.pbtxt:14:3", or only the file
};

struct Diagnostic {
  enum class Severity { kError, kNote };
  Severity severity = Severity::kError;
  SourcePlace place;
  std::string message;
  std::string hint;  // advice for the user; empty: none

  std::string ToString() const;  // the text of the entry; ends with a newline
};

// Collects the errors and notes of a configuration. Not thread-safe.
class Diagnostics {
 public:
  // Maximum number of stored errors, and of stored notes. Further errors and notes are only
  // counted.
  static constexpr int64_t kKeptMax = 100;

  // Adds an error. If `hint` is empty, takes the hint from `message` (SplitHint).
  void Error(const SourcePlace& place, const std::string& message, const std::string& hint = "");
  // Adds a note: information for the user that does not stop the job.
  void Note(const SourcePlace& place, const std::string& message, const std::string& hint = "");

  bool ok() const { return errors_ == 0; }
  int64_t errors() const { return errors_; }
  bool full() const { return errors_ >= kKeptMax; }
  const std::vector<Diagnostic>& entries() const { return entries_; }

  // Return the texts of all errors, or of all notes. Entries of a file are sorted by line and
  // column; entries without a line follow them. The last line counts entries that were not stored.
  std::string ErrorText() const;
  std::string NoteText() const;
  // Returns OK if there are no errors, otherwise INVALID_ARGUMENT with ErrorText().
  Status status() const;

 private:
  std::string Text(Diagnostic::Severity severity) const;

  std::vector<Diagnostic> entries_;
  int64_t errors_ = 0;
  int64_t notes_ = 0;
};

}  // namespace tandem::strategy
