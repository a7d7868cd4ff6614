// One message of a push: gradients for one server.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "common/tables/push_header.h"
#include "pserver/client/job_tables.h"
#include "pserver/client/owner_map.h"

namespace tandem::ps {

// A push to one server, or one of several if it exceeds the message size. Rows of a table are two
// slices: ids of type i64, then values.
struct PushPart {
  size_t server = 0;
  PushHeader header = {};
  std::vector<codec::CodedSlice> slices = {};
  size_t bytes = 0;
};

bool HasRows(const PushPart& part);
// The servers that own its slices and rows now.
std::set<size_t> OwnersOf(const PushPart& part, const OwnerMap& now, const JobTables& tables);
// Whether, as known now, the server will always reject the part.
bool IsStale(const PushPart& part, const OwnerMap& now, const JobTables& tables);
// The message. `pull`: a serialized PullRequest; empty: none.
codec::CodedPush ToCoded(const PushPart& part, std::string pull);

}  // namespace tandem::ps
