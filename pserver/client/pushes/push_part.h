// The gradients that one message of a push has for one server.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "common/tables/push_header.h"
#include "pserver/client/job/job_tables.h"
#include "pserver/client/job/owner_map.h"

namespace tandem::ps {

// The part of a push for one server. If one part would exceed the message size, a server gets
// several parts. The rows of a table are two slices: first the ids (i64), then the values.
struct PushPart {
  size_t server = 0;
  PushHeader header = {};
  std::vector<codec::CodedSlice> slices = {};
  size_t bytes = 0;
};

bool HasRows(const PushPart& part);
// Returns the servers that own the slices and rows of `part` according to `now`.
std::set<size_t> OwnersOf(const PushPart& part, const OwnerMap& now, const JobTables& tables);
// Returns whether the server will reject the part at every attempt, according to `now`.
bool IsStale(const PushPart& part, const OwnerMap& now, const JobTables& tables);
// Returns the message for the codec. `pull`: a serialized PullRequest; "": the message has no pull.
codec::CodedPush ToCoded(const PushPart& part, std::string pull);

}  // namespace tandem::ps
