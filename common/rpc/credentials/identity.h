// The identity in a certificate: a role in a job. It is the certificate's only URI (subject
// alternative name), in SPIFFE form (github.com/spiffe, SPIFFE-ID):
// spiffe://tandem/job/NAME/role/ROLE.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::rpc {

enum class PeerRole : uint8_t {
  kTrainer,   // trains: pushes and pulls
  kPserver,   // holds parameters
  kObserver,  // reads only
  kAdmin      // saves, restores, reads everything
};
inline constexpr std::array kPeerRoles = {PeerRole::kTrainer, PeerRole::kPserver,
                                          PeerRole::kObserver, PeerRole::kAdmin};

const char* RoleName(PeerRole role);  // "trainer"
// INVALID_ARGUMENT: unknown name; the message suggests the nearest one.
StatusOr<PeerRole> ParsePeerRole(std::string_view text);

struct PeerIdentity {
  std::string job;
  PeerRole role = PeerRole::kTrainer;
  bool operator==(const PeerIdentity&) const = default;
};

// Accepts [A-Za-z0-9._-]{1,64} except "." and "..", which paths must not contain.
Status CheckJobName(std::string_view job);
std::string ToUri(const PeerIdentity& identity);
// INVALID_ARGUMENT: the message says what was expected.
StatusOr<PeerIdentity> ParseIdentity(std::string_view uri);

}  // namespace tandem::rpc
