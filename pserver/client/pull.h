// Pulls dense parameters, slice by slice from their owners.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "pserver/client/calls.h"
#include "pserver/client/client.h"
#include "pserver/client/job_tables.h"
#include "pserver/client/request_filler.h"

namespace tandem::ps {

// A pull of slices from one server, with the destinations of their values.
struct PullPart {
  struct Range {
    std::string variable;
    int64_t offset = 0, numel = 0;  // place of a slice
    float* to = nullptr;
  };
  size_t server = 0;
  PullCondition when;
  // The slices come from another server, whose versions are not comparable (a_sync).
  bool any_version = false;
  std::vector<Range> ranges = {};
  Time deadline = {};  // Time(): not sent yet
  int attempts = 0;
};
using PullParts = std::vector<std::shared_ptr<PullPart>>;

// Thread-safe. The arguments of the constructor must outlive this.
class Puller {
 public:
  Puller(Caller& caller, const PsOptions& options, Placement& placement, RequestFiller& requests,
         const JobTables& tables)
      : caller_(caller),
        options_(options),
        placement_(placement),
        requests_(requests),
        tables_(tables) {}

  // Does PsClient::Pull.
  void Pull(PullCondition when, const std::vector<PsTensor>& params, PsClient::DoneVersion done);

  // One part for each server or (split_messages) for each slice.
  StatusOr<PullParts> Split(const std::vector<PsTensor>& params, PullCondition when);
  // Groups the ranges of parts by their owners of now. Returns the new parts by server.
  std::map<size_t, std::shared_ptr<PullPart>> Resplit(const PullParts& parts,
                                                      const OwnerMap& owners) const;
  // Sends a part. If its slices have moved, sends it to their owners.
  void Send(std::shared_ptr<PullPart> part, PsClient::DoneVersion done);
  // A serialized PullRequest, as part of a push.
  std::string Request(const PullPart& part) const;

 private:
  // `moved`: the server says so. Otherwise it does not reply.
  void SendElsewhere(std::shared_ptr<PullPart> part, bool moved, const Status& why,
                     PsClient::DoneVersion done);

  Caller& caller_;
  const PsOptions& options_;
  Placement& placement_;
  RequestFiller& requests_;
  const JobTables& tables_;
};

// Copies the values of a reply to their destinations. Returns its version. DATA_LOSS: the reply
// does not fit the part.
StatusOr<uint64_t> TakePull(const PullPart& part, codec::Fragments message,
                            const codec::CodedPullReply& reply);

}  // namespace tandem::ps
