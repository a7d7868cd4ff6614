// The certificates with which a rank encrypts its connections to the other ranks: TLS 1.3 with
// certificates on both sides (RFC 8446).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/rpc/credentials/tls_files.h"

struct ssl_ctx_st;

namespace tandem::collective {

// The loaded files. Immutable, so any thread may use it. Connections made later use the files that
// Load has read, so a rank loads the files again for each rendezvous.
class TlsContext {
 public:
  // Reads the files. The certificate must be for role trainer of job `job` ("": any job).
  // INVALID_ARGUMENT: `files` does not name certificate, key and authority. RequireIdentity
  // (common/rpc/credentials/tls_files.h) lists the other errors.
  static StatusOr<std::shared_ptr<const TlsContext>> Load(const rpc::TlsFiles& files,
                                                          const std::string& job);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  ssl_ctx_st* get() const { return context_; }
  const rpc::TlsFiles& files() const { return files_; }
  const std::string& job() const { return job_; }

 private:
  TlsContext(const rpc::TlsFiles& files, const std::string& job);

  const rpc::TlsFiles files_;
  const std::string job_;
  ssl_ctx_st* const context_;
};

}  // namespace tandem::collective
