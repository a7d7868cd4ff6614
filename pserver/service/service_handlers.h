// The handlers of all calls of a pserver, as one class with a virtual method per call
// (proto/pserver.proto). service.cc implements the class; service_v1.cc forwards to it. Includes
// gRPC: for .cc files only.
#pragma once

#include "proto/pserver.grpc.pb.h"

namespace tandem::pserver {
namespace handlers {

using Moves = ParameterServer::WithCallbackMethod_ExchangeMap<
    ParameterServer::WithCallbackMethod_FreezeBuckets<
        ParameterServer::WithCallbackMethod_OfferBuckets<
            ParameterServer::WithCallbackMethod_ReleaseBuckets<
                ParameterServer::WithCallbackMethod_RefuseBuckets<ParameterServer::Service>>>>>;
using Replication = ParameterServer::WithCallbackMethod_FetchLog<
    ParameterServer::WithCallbackMethod_FetchCheckpoint<
        ParameterServer::WithCallbackMethod_FetchChanges<Moves>>>;
using Snapshots = ParameterServer::WithCallbackMethod_HoldPushes<
    ParameterServer::WithCallbackMethod_TakeCut<Replication>>;
// Push and Pull carry tensors and use a hand-written codec. All other calls use protobuf.
using Plain = ParameterServer::WithCallbackMethod_Configure<
    ParameterServer::WithCallbackMethod_InitParams<ParameterServer::WithCallbackMethod_WaitInit<
        ParameterServer::WithCallbackMethod_Barrier<ParameterServer::WithCallbackMethod_Complete<
            ParameterServer::WithCallbackMethod_GetStatus<
                ParameterServer::WithCallbackMethod_SaveCheckpoint<
                    ParameterServer::WithCallbackMethod_RestoreCheckpoint<
                        ParameterServer::WithCallbackMethod_PullState<
                            ParameterServer::WithCallbackMethod_PullTable<
                                ParameterServer::WithCallbackMethod_OpenLane<
                                    ParameterServer::WithCallbackMethod_OpenSession<
                                        Snapshots>>>>>>>>>>>>;
using Base =
    ParameterServer::WithRawCallbackMethod_Push<ParameterServer::WithRawCallbackMethod_Pull<Plain>>;

}  // namespace handlers

// The handlers of the calls (gRPC's callback interface). A handler returns before its reply; a
// thread of the server sends the reply.
class PserverHandlers : public handlers::Base {};

}  // namespace tandem::pserver
