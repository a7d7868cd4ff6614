// The job secret: what proves on a plain connection that a caller belongs to the job.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem {

inline constexpr const char* kTokenMetadata = "x-tandem-token";

// Lower-case hex of HMAC-SHA256(secret, job) (RFC 2104, FIPS 180-4); "" for an empty secret.
std::string JobToken(std::string_view secret, std::string_view job);

// Takes as long for the first different character as for the last.
bool TokensEqual(std::string_view a, std::string_view b);

// The secret in a file, without the line end. PERMISSION_DENIED when others may read the file, or
// it belongs to a user who is neither that of this process nor root. INVALID_ARGUMENT when it holds
// fewer than 16 characters, DATA_LOSS with more than 4096. A file that cannot be read is named with
// the system's reason.
StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace tandem
