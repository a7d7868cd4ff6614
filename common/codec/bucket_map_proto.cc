#include "common/codec/bucket_map_proto.h"

#include <algorithm>

#include "proto/pserver.pb.h"

namespace tandem {

int IndexOf(uint32_t number) { return static_cast<int>(std::min<uint32_t>(number, INT32_MAX)); }

std::vector<BucketMove> FromProto(const MoveDefs& moves) {
  std::vector<BucketMove> all;
  for (const BucketMoveDef& m : moves) {
    all.push_back({IndexOf(m.bucket()), m.epoch(), IndexOf(m.server())});
  }
  return all;
}

void ToProto(const std::vector<BucketMove>& moves, MoveDefs* out) {
  for (const BucketMove& m : moves) {
    BucketMoveDef* const to = out->Add();
    to->set_bucket(static_cast<uint32_t>(m.bucket));
    to->set_epoch(m.epoch);
    to->set_server(static_cast<uint32_t>(m.server));
  }
}

BucketMap FromProto(const BucketMapDef& def) {
  BucketMap map;
  for (const BucketMove& move : FromProto(def.move())) map.Learn(move);
  for (const ServerAddress& s : def.server()) map.SetAddress(IndexOf(s.index()), s.address());
  return map;
}

void ToProto(const BucketMap& map, BucketMapDef* out) {
  ToProto(map.moves(), out->mutable_move());
  for (const auto& [index, address] : map.addresses()) {
    ServerAddress* const to = out->add_server();
    to->set_index(static_cast<uint32_t>(index));
    to->set_address(address);
  }
}

}  // namespace tandem
