// The identity of a process, which is its role in a job. A certificate contains the identity as the
// only URI among its subject alternative names. The form of the URI is SPIFFE (github.com/spiffe,
// SPIFFE-ID): spiffe://tandem/job/NAME/role/ROLE.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::rpc {

enum class PeerRole : uint8_t {
  kTrainer,   // trainer: pushes gradients and pulls parameters
  kPserver,   // parameter server: holds parameters
  kObserver,  // observer: may only read the status
  kReader,    // reader: may only read parameters and the status
  kAdmin      // administrator: may save, restore, and read everything
};
inline constexpr std::array kPeerRoles = {PeerRole::kTrainer, PeerRole::kPserver,
                                          PeerRole::kObserver, PeerRole::kReader, PeerRole::kAdmin};

const char* RoleName(PeerRole role);  // returns the name of a role, such as "trainer"
// Returns the role with this name. INVALID_ARGUMENT: the name is unknown; the message suggests the
// nearest name.
StatusOr<PeerRole> ParsePeerRole(std::string_view text);

struct PeerIdentity {
  std::string job;
  PeerRole role = PeerRole::kTrainer;
  bool operator==(const PeerIdentity&) const = default;
};

// Checks a job name: 1 to 64 characters of [A-Za-z0-9._-]. "." and ".." are invalid, because they
// are unsafe in paths.
Status CheckJobName(std::string_view job);
std::string ToUri(const PeerIdentity& identity);
// Reads an identity from its URI. INVALID_ARGUMENT: the URI has another form; the message has the
// expected form.
StatusOr<PeerIdentity> ParseIdentity(std::string_view uri);

}  // namespace tandem::rpc
