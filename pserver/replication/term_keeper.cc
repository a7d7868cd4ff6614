#include "pserver/replication/term_keeper.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

TermKeeper::TermKeeper(Options options, Storage& storage, LogSource& source)
    : options_(std::move(options)), storage_(storage), source_(source) {
  TD_REQUIRE(storage.files() != nullptr && options_.random != nullptr);
}

Status TermKeeper::Begin(LogTerm term, std::optional<LogSource::Predecessor> predecessor,
                         const Log& log) {
  TD_REQUIRE(term.history != 0 || !predecessor);
  if (term.history == 0) term.history = options_.random();
  TD_RETURN_IF_ERROR(storage_.files()->SetTerm(term));
  TD_RETURN_IF_ERROR(storage_.files()->SetComplete());  // others take the state from this server
  // Before the first values, a server has acknowledged nothing that a standby needs.
  const bool waits = options_.standbys != 0 && options_.replication == Replication::kQuorum;
  if (waits && log.initialised) log.log.AwaitStandbys();
  source_.BeginTerm(term, log.log.written(), predecessor);
  return OkStatus();
}

Status TermKeeper::Resume(const Log& log) {
  TD_ASSIGN_OR_RETURN(LogTerm term, storage_.files()->Term());
  // The term of a server without standbys has the number 0.
  const uint64_t first = options_.standbys == 0 ? 0 : 1;
  if (term.history == 0) return Begin({0, first, 0}, std::nullopt, log);
  const LogSource::Predecessor predecessor{term, log.log.written(), /*restarted=*/true};
  ++term.start;
  return Begin(term, predecessor, log);
}

Status TermKeeper::OnRestoreBegin() {
  source_.Pause();
  LogTerm next = source_.term();
  if (next.number == 0) {
    ++next.start;
  } else {
    ++next.number;
    next.start = 0;
  }
  Status stored = storage_.files()->SetTerm(next);
  if (!stored.ok() && !restore_unfinished_) source_.Resume();
  return stored;
}

Status TermKeeper::OnRestoreEnd(bool replaced, bool stored, const Log& log) {
  TD_REQUIRE(replaced || !stored);
  restore_unfinished_ = restore_unfinished_ || replaced;
  if (!restore_unfinished_) source_.Resume();
  if (!stored) return OkStatus();
  TD_ASSIGN_OR_RETURN(const LogTerm term, storage_.files()->Term());
  TD_RETURN_IF_ERROR(Begin(term, std::nullopt, log));
  restore_unfinished_ = false;
  return OkStatus();
}

}  // namespace tandem::pserver
