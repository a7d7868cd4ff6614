// The RPCs of service ParameterServer (proto/pserver.proto), as a table with one row of properties
// for each RPC. Clients and servers use the same table.
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
  kOpenSession,
  kFetchLog,
  kFetchCheckpoint,
  kFetchChanges
};

struct PserverCallRow {
  PserverCall call;
  const char* name;  // name of the RPC in service ParameterServer
  // Name of the RPC in tandem.pserver.v1.ParameterServer (proto/pserver_v1.proto); null: `name`.
  const char* v1_name = nullptr;
  std::span<const PeerRole> roles;  // roles that may make this call
  // true: the messages carry gradients or parameters. Such a call may use shared memory. A client
  // cancels the call if the job does not need the server any more.
  bool carries_values = false;
  // true: the client repeats the call after DATA_LOSS even if its retransmit buffer is not enabled
  // (yet). A server returns DATA_LOSS while it waits for retransmitted pushes. false: the client
  // repeats the call only if the buffer is enabled.
  bool patient = false;
};

// Returns the table. It has one row for each RPC, indexed by PserverCall.
std::span<const PserverCallRow> PserverCallTable();
const PserverCallRow& RowOf(PserverCall call);
inline const char* NameOf(PserverCall call) { return RowOf(call).name; }
inline const char* NameInV1(PserverCall call) {
  const PserverCallRow& row = RowOf(call);
  return row.v1_name != nullptr ? row.v1_name : row.name;
}

}  // namespace tandem::rpc
