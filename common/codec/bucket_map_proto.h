// Converts between class BucketMap and its message BucketMapDef (proto/pserver.proto), for clients
// and servers.
#pragma once

#include <vector>

#include "common/tables/bucket_map.h"

namespace google::protobuf {
template <typename T>
class RepeatedPtrField;
}

namespace tandem {

class BucketMapDef;
class BucketMoveDef;

using MoveDefs = google::protobuf::RepeatedPtrField<BucketMoveDef>;

// Converts a uint32 of a message to an int. A number above INT32_MAX becomes INT32_MAX.
int IndexOf(uint32_t number);
std::vector<BucketMove> FromProto(const MoveDefs& moves);
void ToProto(const std::vector<BucketMove>& moves, MoveDefs* out);
BucketMap FromProto(const BucketMapDef& map);
void ToProto(const BucketMap& map, BucketMapDef* out);

}  // namespace tandem
