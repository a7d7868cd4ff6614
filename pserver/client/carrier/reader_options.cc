#include "pserver/client/carrier/reader_options.h"

namespace tandem::ps {

PsOptions ChannelOptions(const ReaderOptions& options) {
  PsOptions of_channel;
  of_channel.job = options.job;
  of_channel.security = options.security;
  of_channel.patience.start_timeout = of_channel.patience.step_timeout = options.timeout;
  of_channel.transport = PsTransport::kGrpc;
  of_channel.callbacks.stop = options.stop;
  return of_channel;
}

}  // namespace tandem::ps
