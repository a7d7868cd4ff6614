// Handles unresponsive pservers in a trainer: the trainer reports them to the launcher, which kills
// and restarts such a server, and waits for the restart.
#pragma once

#include "pserver/client/client.h"
#include "trainer/modes/pserver_mode.h"

namespace tandem::trainer {

// Sets the client options that this needs.
void TellOfSilence(const PserverOptions& options, ps::PsOptions& ps);

// Returns a timeout longer than all deadlines of the client, because the client's errors name the
// unresponsive server.
Duration PserverTimeout(const PserverOptions& options);

}  // namespace tandem::trainer
