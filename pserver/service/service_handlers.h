// The handlers of all calls of a pserver, as one class with a virtual method per call
// (proto/pserver.proto). service.cc implements the class. Includes gRPC: for .cc files only.
#pragma once

#include "proto/pserver.pb.h"
#include "pserver/service/call_context.h"

namespace grpc {
class ServerUnaryReactor;
}

namespace tandem::pserver {

// Lists the calls whose messages are protobuf messages: TD_CALL(name, name in
// tandem.pserver.v1.ParameterServer, request, reply). Push and Pull carry tensors and use a
// hand-written codec.
#define TD_PROTO_CALLS(TD_CALL)                                                                   \
  TD_CALL(Configure, Configure, ConfigureRequest, ConfigureReply)                                 \
  TD_CALL(InitParams, InitParams, InitParamsRequest, InitParamsReply)                             \
  TD_CALL(WaitInit, WaitInit, WaitInitRequest, WaitInitReply)                                     \
  TD_CALL(Barrier, Barrier, BarrierRequest, BarrierReply)                                         \
  TD_CALL(Complete, Complete, CompleteRequest, CompleteReply)                                     \
  TD_CALL(GetStatus, GetStatus, StatusRequest, StatusReply)                                       \
  TD_CALL(SaveCheckpoint, SaveCheckpoint, SaveCheckpointRequest, SaveCheckpointReply)             \
  TD_CALL(RestoreCheckpoint, RestoreCheckpoint, RestoreCheckpointRequest, RestoreCheckpointReply) \
  TD_CALL(PullState, PullState, PullStateRequest, PullStateReply)                                 \
  TD_CALL(PullTable, PullTable, PullTableRequest, PullTableReply)                                 \
  TD_CALL(OpenLane, OpenShmChannel, OpenLaneRequest, OpenLaneReply)                               \
  TD_CALL(ExchangeMap, ExchangeMap, ExchangeMapRequest, ExchangeMapReply)                         \
  TD_CALL(FreezeBuckets, FreezeBuckets, FreezeBucketsRequest, FreezeBucketsReply)                 \
  TD_CALL(OfferBuckets, PrepareBuckets, OfferBucketsRequest, OfferBucketsReply)                   \
  TD_CALL(ReleaseBuckets, CommitBuckets, ReleaseBucketsRequest, ReleaseBucketsReply)              \
  TD_CALL(RefuseBuckets, SetDraining, RefuseBucketsRequest, RefuseBucketsReply)                   \
  TD_CALL(HoldPushes, PausePushes, HoldPushesRequest, HoldPushesReply)                            \
  TD_CALL(TakeCut, TakeSnapshot, TakeCutRequest, TakeCutReply)                                    \
  TD_CALL(OpenSession, OpenSession, OpenSessionRequest, OpenSessionReply)                         \
  TD_CALL(FetchLog, FetchLog, FetchLogRequest, FetchLogReply)                                     \
  TD_CALL(FetchCheckpoint, FetchCheckpoint, FetchCheckpointRequest, FetchCheckpointReply)         \
  TD_CALL(FetchChanges, FetchChanges, FetchChangesRequest, FetchChangesReply)

// The handlers of the calls. A handler returns before its reply; a thread of the server sends the
// reply. A handler of a protobuf message may get an empty request (CallContext::CheckRequest).
class PserverHandlers {
 public:
  virtual ~PserverHandlers() = default;
#define TD_HANDLER(call, v1_name, Request, Reply)                                      \
  virtual grpc::ServerUnaryReactor* call(CallContext* context, const Request* request, \
                                         Reply* reply) = 0;
  TD_PROTO_CALLS(TD_HANDLER)
  TD_HANDLER(Push, Push, grpc::ByteBuffer, grpc::ByteBuffer)
  TD_HANDLER(Pull, Pull, grpc::ByteBuffer, grpc::ByteBuffer)
#undef TD_HANDLER
};

}  // namespace tandem::pserver
