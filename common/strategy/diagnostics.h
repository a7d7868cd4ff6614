// What is wrong with a file, a flag or a setting, said for people: place, what, excerpt, what to
// do.
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

namespace tandem {

// A place that a message points at. With line 0 only `file` is shown, which may then be anything
// that names the source: "flag --a_sync", "environment CPU_NUM".
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

// All that was found, in one list. Not thread-safe.
class Diagnostics {
 public:
  // More errors, and more notes, than this are counted but not kept.
  static constexpr int64_t kKeptMax = 100;

  // Without `hint`, that of SplitHint.
  void Error(const SourcePlace& place, const std::string& message, const std::string& hint = "");
  // Something that the user should know and that does not stop the job.
  void Note(const SourcePlace& place, const std::string& message, const std::string& hint = "");

  bool ok() const { return errors_ == 0; }
  int64_t errors() const { return errors_; }
  bool full() const { return errors_ >= kKeptMax; }
  const std::vector<Diagnostic>& entries() const { return entries_; }

  // Entries of one file by line and column, then those without a line; a last line tells how many
  // were not kept.
  std::string ErrorText() const;
  std::string NoteText() const;
  // OK without errors, else INVALID_ARGUMENT with ErrorText().
  Status status() const;

 private:
  std::string Text(Diagnostic::Severity severity) const;

  std::vector<Diagnostic> entries_;
  int64_t errors_ = 0;
  int64_t notes_ = 0;
};

}  // namespace tandem
