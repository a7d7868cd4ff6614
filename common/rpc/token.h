// The job secret: callers and servers that hold it belong to the job (session_proof.h).
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::rpc {

// Metadata of earlier versions: they sent the same proof with every call. It is refused.
inline constexpr const char* kTokenMetadata = "x-tandem-token";

// The secret in a file, without the line end. PERMISSION_DENIED when others may read the file, or
// it belongs to a user who is neither that of this process nor root. INVALID_ARGUMENT when it holds
// fewer than 16 characters, DATA_LOSS with more than 4096. A file that cannot be read is named with
// the system's reason.
StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace tandem::rpc
