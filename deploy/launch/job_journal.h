// The messages of a job's supervisor: lines for the user, and events in the log directory.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem::deploy {

// An event or a log line that cannot be written does not end the job: the user gets one warning
// when it happens, and one at the end. Not thread-safe.
class JobJournal {
 public:
  // `name`: the program, for the user.
  JobJournal(std::string log_dir, std::string name)
      : log_dir_(std::move(log_dir)), name_(std::move(name)) {}

  // Prints "NAME: TEXT" on stderr.
  void Say(const std::string& text) const;
  // Adds an event to events.jsonl (job_record.h).
  void Note(const char* event, const std::string& process, int64_t pid, const std::string& text);
  // Warns once that the log directory is incomplete from now on; does nothing for OK.
  void NoteLoss(const Status& why);
  // Repeats the warning, because the first one is far above by now.
  void RepeatWarning() const;

  const std::string& log_dir() const { return log_dir_; }

 private:
  void Warn() const;

  const std::string log_dir_, name_;
  Status lost_;  // the reason why the log directory lacks lines; OK: it is complete
};

}  // namespace tandem::deploy
