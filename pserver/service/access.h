// Access rights: one row for each call of proto/pserver.proto. Enforced if callers have
// certificates; without TLS there are no roles.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/identity.h"

namespace tandem::pserver {

enum class PserverCall : uint8_t {
  kConfigure,
  kInitParams,
  kWaitInit,
  kPush,
  kPull,
  kBarrier,
  kComplete,
  kGetStatus,
  kSaveCheckpoint,
  kRestoreCheckpoint,
  kPullState,
  kPullTable,
  kOpenLane,
  kExchangeMap,
  kFreezeBuckets,
  kOfferBuckets,
  kReleaseBuckets,
  kRefuseBuckets,
  kHoldPushes,
  kTakeCut,
  kOpenSession
};

struct AccessRow {
  PserverCall call;
  const char* method;  // in service ParameterServer
  std::vector<rpc::PeerRole> roles;
};
// Indexed by PserverCall.
const std::vector<AccessRow>& AccessTable();

// OK if a caller with these URIs in its certificate may make the call on a server of `job`.
// PERMISSION_DENIED: it may not (the message names the caller and the roles of the call).
Status CheckAccess(PserverCall call, const std::string& job,
                   std::span<const std::string_view> uris);

}  // namespace tandem::pserver
