// What a trainer does about pservers that do not answer: it tells the launcher, which kills and
// starts such a server again, and waits for that.
#pragma once

#include "pserver/client/client.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {

// Sets what the client needs for it.
void TellOfSilence(const ModeOptions& options, ps::PsOptions& ps);

// After all deadlines of the client, whose errors name the server that does not answer.
Duration PserverTimeout(const ModeOptions& options);

}  // namespace tandem::trainer
