// The arguments that bindings of readers have in common.
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "pserver/client/carrier/reader_options.h"
#include "trainer/python/durations.h"
#include "trainer/python/interrupts.h"

namespace tandem::python {

// (certificate, key, CA), names of PEM files.
using TlsFiles = std::tuple<std::string, std::string, std::string>;

// Ctrl-C ends the waits of the reader.
inline ps::ReaderOptions ReaderOptionsOf(const std::string& job, const std::string& secret,
                                         const std::optional<TlsFiles>& tls,
                                         bool insecure_allow_network, double timeout) {
  ps::ReaderOptions options;
  options.job = job;
  options.security.secret = secret;
  if (tls.has_value()) {
    options.security.tls = {
        .cert = std::get<0>(*tls), .key = std::get<1>(*tls), .ca = std::get<2>(*tls)};
  }
  options.security.insecure_allow_network = insecure_allow_network;
  options.timeout = FromSeconds(timeout);
  options.stop = InterruptedBySignal;
  return options;
}

}  // namespace tandem::python
