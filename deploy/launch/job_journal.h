// The messages of a job's supervisor: lines of text for the user, and events in the log directory.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem::deploy {

// Writes messages and events. If an event or a log line cannot be written, the job continues; the
// user gets a warning immediately and another warning at the end. Not thread-safe.
class JobJournal {
 public:
  // `name` is the program's name in messages to the user.
  JobJournal(std::string log_dir, std::string name)
      : log_dir_(std::move(log_dir)), name_(std::move(name)) {}

  // Prints the line "NAME: TEXT" on stderr.
  void Say(const std::string& text) const;
  // Adds an event to events.jsonl (job_record.h).
  void Note(const char* event, const std::string& process, int64_t pid, const std::string& text);
  // Warns the user that the log directory lacks lines because of `why`. Only the first error causes
  // a warning. Does nothing if `why` is OK.
  void NoteLoss(const Status& why);
  // Prints the warning of NoteLoss again, if there was one. The supervisor calls RepeatWarning at
  // the end of the job, because the user may not see the first warning.
  void RepeatWarning() const;

  const std::string& log_dir() const { return log_dir_; }

 private:
  void Warn() const;

  const std::string log_dir_, name_;
  Status lost_;  // cause of missing lines in the log directory; OK: no line is missing
};

}  // namespace tandem::deploy
