// Converts between BucketMapDef of proto/pserver.proto and class BucketMap, for clients and
// servers.
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

// Converts a number of a message to an int. A number that is too large becomes INT32_MAX.
int IndexOf(uint32_t number);
std::vector<BucketMove> FromProto(const MoveDefs& moves);
void ToProto(const std::vector<BucketMove>& moves, MoveDefs* out);
BucketMap FromProto(const BucketMapDef& map);
void ToProto(const BucketMap& map, BucketMapDef* out);

}  // namespace tandem
