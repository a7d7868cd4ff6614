// The calls of service ParameterServer (proto/pserver.proto), with one row of properties for each.
// Client and server use the same table.
#pragma once

#include <cstdint>
#include <span>

#include "common/rpc/credentials/identity.h"

namespace tandem::rpc {

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
  kOpenShmChannel,
  kExchangeMap,
  kFreezeBuckets,
  kOfferBuckets,
  kReleaseBuckets,
  kRefuseBuckets,
  kHoldPushes,
  kTakeSnapshot,
  kOpenSession
};

struct PserverCallRow {
  PserverCall call;
  const char* name;  // name of the method in service ParameterServer
  // Name in tandem.pserver.v1.ParameterServer (proto/pserver_v1.proto); null: `name`.
  const char* v1_name = nullptr;
  std::span<const PeerRole> roles;  // roles that may make the call
  // The messages carry gradients or parameters. Shared memory may carry the call, and a client
  // cancels the call to a server that the job does not need any more.
  bool carries_values = false;
  // The client repeats the call while the server waits for retransmitted pushes (DATA_LOSS), even
  // if the client does not know yet whether servers ask for such pushes.
  bool patient = false;
};

// One row for each call, indexed by PserverCall.
std::span<const PserverCallRow> PserverCallTable();
const PserverCallRow& RowOf(PserverCall call);
inline const char* NameOf(PserverCall call) { return RowOf(call).name; }
inline const char* NameInV1(PserverCall call) {
  const PserverCallRow& row = RowOf(call);
  return row.v1_name != nullptr ? row.v1_name : row.name;
}

}  // namespace tandem::rpc
