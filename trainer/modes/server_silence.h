// Handles unresponsive pservers in a trainer. The trainer reports an unresponsive server to the
// launcher and waits. The launcher kills and restarts the server.
#pragma once

#include "pserver/client/client.h"
#include "trainer/modes/pserver_mode.h"

namespace tandem::trainer {

// Sets the options that make the client report unresponsive servers to the launcher.
void TellOfSilence(const PserverOptions& options, ps::PsOptions& ps);

// Returns a timeout for operators that is longer than all deadlines of the client. An unresponsive
// server therefore causes the client's error, which names the server, and not the timeout.
Duration PserverTimeout(const PserverOptions& options);

}  // namespace tandem::trainer
