#include "trainer/modes/server_silence.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/launcher_words.h"

namespace tandem::trainer {
namespace {

Duration ReplaceTimeout(const ModeOptions& options) {
  return options.replaces ? options.start_timeout : Duration::zero();
}

}  // namespace

void TellOfSilence(const ModeOptions& options, ps::PsOptions& ps) {
  ps.patience.replace_timeout = ReplaceTimeout(options);
  if (options.launcher.empty()) return;
  ps.callbacks.on_silent = [fifo = options.launcher,
                            who = absl::StrFormat("caller %d", options.rank),
                            limit = options.step_timeout,
                            start = options.start_timeout](int server, Duration silent) {
    TellWait(fifo,
             {who, absl::StrFormat("pserver %d", server), silent, limit, std::max(limit, start)});
  };
}

Duration PserverTimeout(const ModeOptions& options) {
  return 2 * options.step_timeout + ReplaceTimeout(options) + std::chrono::seconds(5);
}

}  // namespace tandem::trainer
