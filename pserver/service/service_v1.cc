#include "pserver/service/service_v1.h"

#include "proto/pserver_v1.grpc.pb.h"
#include "pserver/service/service_handlers.h"

namespace tandem::pserver {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

using V1 = v1::ParameterServer;
using Moves = V1::WithCallbackMethod_ExchangeMap<
    V1::WithCallbackMethod_FreezeBuckets<V1::WithCallbackMethod_PrepareBuckets<
        V1::WithCallbackMethod_CommitBuckets<V1::WithCallbackMethod_SetDraining<
            V1::WithCallbackMethod_PausePushes<V1::WithCallbackMethod_TakeSnapshot<
                V1::WithCallbackMethod_FetchLog<V1::WithCallbackMethod_FetchCheckpoint<
                    V1::WithCallbackMethod_FetchChanges<V1::Service>>>>>>>>>>;
using Plain = V1::WithCallbackMethod_Configure<V1::WithCallbackMethod_InitParams<
    V1::WithCallbackMethod_WaitInit<V1::WithCallbackMethod_Barrier<V1::WithCallbackMethod_Complete<
        V1::WithCallbackMethod_GetStatus<V1::WithCallbackMethod_SaveCheckpoint<
            V1::WithCallbackMethod_RestoreCheckpoint<V1::WithCallbackMethod_PullState<
                V1::WithCallbackMethod_PullTable<V1::WithCallbackMethod_OpenShmChannel<
                    V1::WithCallbackMethod_OpenSession<Moves>>>>>>>>>>>>;
// Push and Pull carry tensors, so this service forwards their messages as bytes.
using Base = V1::WithRawCallbackMethod_Push<V1::WithRawCallbackMethod_Pull<Plain>>;

class ServiceV1 final : public Base {
 public:
  explicit ServiceV1(PserverHandlers& handlers) : handlers_(handlers) {}

// Defines a call of this service. `served_by`: the method of PserverHandlers that handles the call.
#define TD_FORWARD(call, served_by, Request, Reply)                                              \
  ServerUnaryReactor* call(CallbackServerContext* context, const Request* request, Reply* reply) \
      override {                                                                                 \
    return handlers_.served_by(context, request, reply);                                         \
  }
  TD_FORWARD(Configure, Configure, ConfigureRequest, ConfigureReply)
  TD_FORWARD(InitParams, InitParams, InitParamsRequest, InitParamsReply)
  TD_FORWARD(WaitInit, WaitInit, WaitInitRequest, WaitInitReply)
  TD_FORWARD(Push, Push, ByteBuffer, ByteBuffer)
  TD_FORWARD(Pull, Pull, ByteBuffer, ByteBuffer)
  TD_FORWARD(Barrier, Barrier, BarrierRequest, BarrierReply)
  TD_FORWARD(Complete, Complete, CompleteRequest, CompleteReply)
  TD_FORWARD(GetStatus, GetStatus, StatusRequest, StatusReply)
  TD_FORWARD(SaveCheckpoint, SaveCheckpoint, SaveCheckpointRequest, SaveCheckpointReply)
  TD_FORWARD(RestoreCheckpoint, RestoreCheckpoint, RestoreCheckpointRequest, RestoreCheckpointReply)
  TD_FORWARD(PullState, PullState, PullStateRequest, PullStateReply)
  TD_FORWARD(PullTable, PullTable, PullTableRequest, PullTableReply)
  TD_FORWARD(OpenShmChannel, OpenLane, OpenLaneRequest, OpenLaneReply)
  TD_FORWARD(ExchangeMap, ExchangeMap, ExchangeMapRequest, ExchangeMapReply)
  TD_FORWARD(FreezeBuckets, FreezeBuckets, FreezeBucketsRequest, FreezeBucketsReply)
  TD_FORWARD(PrepareBuckets, OfferBuckets, OfferBucketsRequest, OfferBucketsReply)
  TD_FORWARD(CommitBuckets, ReleaseBuckets, ReleaseBucketsRequest, ReleaseBucketsReply)
  TD_FORWARD(SetDraining, RefuseBuckets, RefuseBucketsRequest, RefuseBucketsReply)
  TD_FORWARD(PausePushes, HoldPushes, HoldPushesRequest, HoldPushesReply)
  TD_FORWARD(TakeSnapshot, TakeCut, TakeCutRequest, TakeCutReply)
  TD_FORWARD(FetchLog, FetchLog, FetchLogRequest, FetchLogReply)
  TD_FORWARD(FetchCheckpoint, FetchCheckpoint, FetchCheckpointRequest, FetchCheckpointReply)
  TD_FORWARD(FetchChanges, FetchChanges, FetchChangesRequest, FetchChangesReply)
  TD_FORWARD(OpenSession, OpenSession, OpenSessionRequest, OpenSessionReply)
#undef TD_FORWARD

 private:
  PserverHandlers& handlers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePserverServiceV1(PserverHandlers& handlers) {
  return std::make_unique<ServiceV1>(handlers);
}

}  // namespace tandem::pserver
