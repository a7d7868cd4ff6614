// The job secret. Callers and servers that know it belong to the job (session_proof.h).
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::rpc {

// Metadata key of earlier versions, which sent the same proof with every call. Servers reject it.
inline constexpr const char* kTokenMetadata = "x-tandem-token";

// Reads the secret in a file, without the line end. An unreadable file is reported with the
// system's reason.
// PERMISSION_DENIED: other users can read the file, or its owner is neither this process's user nor
// root. INVALID_ARGUMENT: fewer than 16 characters. DATA_LOSS: more than 4096 characters.
StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace tandem::rpc
