// The job secret: callers and servers that hold it belong to the job (session_proof.h).
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem {

// Metadata of earlier versions: they sent the same proof with every call. It is refused.
inline constexpr const char* kTokenMetadata = "x-tandem-token";

// The secret in a file, without the line end. PERMISSION_DENIED when others may read the file,
// INVALID_ARGUMENT when it holds fewer than 16 or more than 4096 characters.
StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace tandem
