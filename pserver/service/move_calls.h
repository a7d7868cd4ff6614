// Handlers of the calls of proto/pserver.proto for moves of buckets. A handler turns a request
// message into a reply message, independently of the transport.
#pragma once

#include "common/base/status.h"

namespace tandem {
class ExchangeMapReply;
class ExchangeMapRequest;
class FreezeBucketsReply;
class FreezeBucketsRequest;
class OfferBucketsRequest;
class ReleaseBucketsReply;
class ReleaseBucketsRequest;
}  // namespace tandem

namespace tandem::pserver {

class Shard;

Status ExchangeMap(const ExchangeMapRequest& request, Shard& shard, ExchangeMapReply* reply);
// The same on a replica and for a caller with role reader (`reader`), without any change of the
// shard. FAILED_PRECONDITION, PERMISSION_DENIED: the request is not one of an observer, or has
// moves.
Status ShowMap(const ExchangeMapRequest& request, bool reader, Shard& shard,
               ExchangeMapReply* reply);
Status FreezeBuckets(const FreezeBucketsRequest& request, Shard& shard, FreezeBucketsReply* reply);
Status OfferBuckets(const OfferBucketsRequest& request, Shard& shard);
Status ReleaseBuckets(const ReleaseBucketsRequest& request, Shard& shard,
                      ReleaseBucketsReply* reply);

}  // namespace tandem::pserver
