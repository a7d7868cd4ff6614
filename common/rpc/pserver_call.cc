#include "common/rpc/pserver_call.h"

#include <iterator>

#include "common/base/require.h"

namespace tandem::rpc {
namespace {

using enum PeerRole;
constexpr PeerRole kTrainers[] = {kTrainer};
constexpr PeerRole kAdmins[] = {kAdmin};
constexpr PeerRole kTrainersAndAdmins[] = {kTrainer, kAdmin};
constexpr PeerRole kReaders[] = {kTrainer, kReader, kAdmin};
constexpr PeerRole kPservers[] = {kPserver};
constexpr PeerRole kAllCallers[] = {kTrainer, kObserver, kReader, kPserver, kAdmin};

constexpr PserverCallRow kRows[] = {
    {.call = PserverCall::kConfigure, .name = "Configure", .roles = kTrainers, .patient = true},
    {.call = PserverCall::kInitParams, .name = "InitParams", .roles = kTrainers},
    {.call = PserverCall::kWaitInit, .name = "WaitInit", .roles = kTrainers},
    {.call = PserverCall::kPush, .name = "Push", .roles = kTrainers, .carries_values = true},
    {.call = PserverCall::kPull, .name = "Pull", .roles = kReaders, .carries_values = true},
    {.call = PserverCall::kBarrier, .name = "Barrier", .roles = kTrainers},
    {.call = PserverCall::kComplete, .name = "Complete", .roles = kTrainers},
    {.call = PserverCall::kGetStatus, .name = "GetStatus", .roles = kAllCallers},
    {.call = PserverCall::kSaveCheckpoint, .name = "SaveCheckpoint", .roles = kTrainersAndAdmins},
    {.call = PserverCall::kRestoreCheckpoint, .name = "RestoreCheckpoint", .roles = kAdmins},
    {.call = PserverCall::kPullState, .name = "PullState", .roles = kTrainersAndAdmins},
    {.call = PserverCall::kPullTable, .name = "PullTable", .roles = kReaders},
    {.call = PserverCall::kOpenShmChannel,
     .name = "OpenLane",
     .v1_name = "OpenShmChannel",
     .roles = kTrainers},
    {.call = PserverCall::kExchangeMap, .name = "ExchangeMap", .roles = kReaders},
    {.call = PserverCall::kFreezeBuckets, .name = "FreezeBuckets", .roles = kAdmins},
    {.call = PserverCall::kOfferBuckets,
     .name = "OfferBuckets",
     .v1_name = "PrepareBuckets",
     .roles = kAdmins},
    {.call = PserverCall::kReleaseBuckets,
     .name = "ReleaseBuckets",
     .v1_name = "CommitBuckets",
     .roles = kAdmins},
    {.call = PserverCall::kRefuseBuckets,
     .name = "RefuseBuckets",
     .v1_name = "SetDraining",
     .roles = kAdmins},
    {.call = PserverCall::kHoldPushes,
     .name = "HoldPushes",
     .v1_name = "PausePushes",
     .roles = kAdmins},
    {.call = PserverCall::kTakeSnapshot,
     .name = "TakeCut",
     .v1_name = "TakeSnapshot",
     .roles = kAdmins},
    {.call = PserverCall::kOpenSession, .name = "OpenSession", .roles = kAllCallers},
    {.call = PserverCall::kFetchLog, .name = "FetchLog", .roles = kPservers},
    {.call = PserverCall::kFetchCheckpoint, .name = "FetchCheckpoint", .roles = kPservers},
    {.call = PserverCall::kFetchChanges, .name = "FetchChanges", .roles = kReaders},
};

constexpr bool IsIndexedByCall() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].call) != i || kRows[i].roles.empty()) return false;
  }
  return true;
}
static_assert(IsIndexedByCall());
static_assert(std::size(kRows) == static_cast<size_t>(PserverCall::kFetchChanges) + 1);

}  // namespace

std::span<const PserverCallRow> PserverCallTable() { return kRows; }

const PserverCallRow& RowOf(PserverCall call) {
  const auto index = static_cast<size_t>(call);
  TD_REQUIRE(index < std::size(kRows));
  return kRows[index];
}

}  // namespace tandem::rpc
