#include "deploy/launch/job_journal.h"

#include <cstdio>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "deploy/launch/job_record.h"

namespace tandem::deploy {

void JobJournal::Say(const std::string& text) const {
  std::fprintf(stderr, "%s: %s\n", name_.c_str(), text.c_str());
}

void JobJournal::Note(const char* event, const std::string& process, int64_t pid,
                      const std::string& text) {
  NoteLoss(AddEvent(log_dir_, {"", event, process, pid, text}));
}

void JobJournal::NoteLoss(const Status& why) {
  if (!lost_.ok() || why.ok()) return;
  lost_ = why;
  Warn();
}

void JobJournal::RepeatWarning() const {
  if (!lost_.ok()) Warn();
}

void JobJournal::Warn() const {
  TD_REQUIRE(!lost_.ok());
  Say(absl::StrFormat(
      "warning: lines of the logs or events in %s are lost: %s [TD2117]; the job continues",
      log_dir_, std::string(lost_.message())));
}

}  // namespace tandem::deploy
