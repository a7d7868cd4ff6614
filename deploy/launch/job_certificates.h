// The certificates of one job, which tandemrun makes for its processes.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/held_secrets.h"
#include "deploy/launch/hosts/host_messages.h"

namespace tandem::deploy {

// Makes an authority for job `job` only, and a certificate of each role that this authority signs.
// Discards the authority's key, so that no further certificate can be signed. `hosts`: names and
// addresses of pservers, for their certificate; empty: the job has no pservers. The certificates
// are valid for 30 days; for a longer job, the user must make and renew certificates.
StatusOr<std::vector<RoleCertificate>> MakeJobCertificates(const std::string& job,
                                                           const std::vector<std::string>& hosts);

// Writes the certificates to DIR/ROLE, where the job's processes read them. Keys exist only in the
// memory of this process (`secrets`). Removes an existing directory. INVALID_ARGUMENT: a role is
// not known.
Status WriteJobCertificates(const std::string& dir,
                            const std::vector<RoleCertificate>& certificates, HeldSecrets& secrets);

}  // namespace tandem::deploy
