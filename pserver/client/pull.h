// Pulls dense parameters, each slice from the server that owns the slice.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "pserver/client/calls.h"
#include "pserver/client/client.h"
#include "pserver/client/job/job_tables.h"
#include "pserver/client/request_filler.h"

namespace tandem::ps {

// A pull of slices from one server, with the memory that receives their values.
struct PullPart {
  struct Range {
    std::string variable;
    int64_t offset = 0, numel = 0;  // elements [offset, offset + numel) of the variable
    float* to = nullptr;
  };
  size_t server = 0;
  PullCondition when;
  // true: the pull accepts any version. Set in a_sync mode if the slices have moved to `server`,
  // because versions of different servers are not comparable.
  bool any_version = false;
  std::vector<Range> ranges = {};
  Time deadline = {};  // deadline of the call; Time(): the part was not sent before
  int attempts = 0;
};
using PullParts = std::vector<std::shared_ptr<PullPart>>;

// Makes pulls of dense parameters. Thread-safe. The arguments of the constructor must outlive this
// object.
class Puller {
 public:
  Puller(Caller& caller, const PsOptions& options, Placement& placement, RequestFiller& requests,
         const JobTables& tables)
      : caller_(caller),
        options_(options),
        placement_(placement),
        requests_(requests),
        tables_(tables) {}

  // Implements PsClient::Pull.
  void Pull(PullCondition when, const std::vector<PsTensor>& params, PsClient::DoneVersion done);

  // Splits a pull into parts: one for each server or, with split_messages, one for each slice.
  StatusOr<PullParts> Split(const std::vector<PsTensor>& params, PullCondition when);
  // Groups the ranges of `parts` by their current owners. Returns the new parts by server.
  std::map<size_t, std::shared_ptr<PullPart>> Resplit(const PullParts& parts,
                                                      const OwnerMap& owners) const;
  // Sends a part. If its slices have moved, sends requests for the slices to the new owners.
  void Send(std::shared_ptr<PullPart> part, PsClient::DoneVersion done);
  // Returns a serialized PullRequest for `part`, for the field PushRequest.pull.
  std::string Request(const PullPart& part) const;

 private:
  // Sends the slices of `part` to their current owners. `moved` true: the server replied that
  // slices moved; false: the server does not reply. `why`: the error of the server.
  void SendElsewhere(std::shared_ptr<PullPart> part, bool moved, const Status& why,
                     PsClient::DoneVersion done);

  Caller& caller_;
  const PsOptions& options_;
  Placement& placement_;
  RequestFiller& requests_;
  const JobTables& tables_;
};

// Copies the values of a reply to the memory that `part` names. Returns the version in the reply.
// DATA_LOSS: the reply does not match the part.
StatusOr<uint64_t> TakePull(const PullPart& part, codec::Fragments message,
                            const codec::CodedPullReply& reply);

}  // namespace tandem::ps
