// The job secret. A caller or server that knows the secret belongs to the job (session_proof.h).
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::rpc {

// Metadata key of clients of earlier versions, which sent the same proof with every call. Servers
// reject a call with this key.
inline constexpr const char* kTokenMetadata = "x-tandem-token";

// Reads the secret from a file and removes the line end. NOT_FOUND: no such file.
// PERMISSION_DENIED: other users can read the file, or the file's owner is neither this process's
// user nor root. INVALID_ARGUMENT: the secret has fewer than 16 characters. DATA_LOSS: the file has
// more than 4096 bytes. Other codes: the message has the system's reason.
StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace tandem::rpc
