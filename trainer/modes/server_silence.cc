#include "trainer/modes/server_silence.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/launcher/launcher_words.h"

namespace tandem::trainer {
namespace {

Duration ReplaceTimeout(const PserverOptions& options) {
  return options.replaces ? options.common.start_timeout : Duration::zero();
}

}  // namespace

void TellOfSilence(const PserverOptions& options, ps::PsOptions& ps) {
  ps.patience.replace_timeout = ReplaceTimeout(options);
  if (options.common.launcher.empty()) return;
  ps.callbacks.on_silent = [fifo = options.common.launcher,
                            who = absl::StrFormat("caller %d", options.common.rank),
                            limit = options.common.step_timeout,
                            start = options.common.start_timeout](int server, Duration silent) {
    TellWait(fifo,
             {who, absl::StrFormat("pserver %d", server), silent, limit, std::max(limit, start)});
  };
}

Duration PserverTimeout(const PserverOptions& options) {
  // With local steps, one wait may have a push and the pull that follows it.
  const int calls = options.regime == PsSyncMode::kLocalSteps ? 2 : 1;
  return (calls + 1) * options.common.step_timeout + calls * ReplaceTimeout(options) +
         std::chrono::seconds(5);
}

}  // namespace tandem::trainer
