// Pushes gradients to the servers that own the slices and rows.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "pserver/client/calls.h"
#include "pserver/client/client.h"
#include "pserver/client/job/job_tables.h"
#include "pserver/client/pull.h"
#include "pserver/client/push_admission.h"
#include "pserver/client/push_call.h"
#include "pserver/client/push_group.h"
#include "pserver/client/pushes/push_numbering.h"
#include "pserver/client/pushes/push_part.h"

namespace tandem::ps {

// Handles messages that a server rejected because rows or slices have moved (push_resplit.h).
class PushRefusalHandler {
 public:
  virtual ~PushRefusalHandler() = default;
  // The server replied that some of the rows or slices are not on this server now.
  virtual void OnMoved(std::shared_ptr<PushCall> push, const Status& why) = 0;
  // The server does not reply any more. Called in a_sync mode only.
  virtual void OnGone(std::shared_ptr<PushCall> push, const Status& why) = 0;
};

// Makes pushes. Thread-safe. The arguments of the constructor must outlive this object.
class Pusher {
 public:
  struct Parts {
    Caller& caller;
    const PsOptions& options;
    Placement& placement;
    const JobTables& tables;
    Resender& resender;
    PushAdmission& admission;
    Puller& puller;
    PushRefusalHandler& refusals;
  };
  explicit Pusher(const Parts& parts) : parts_(parts), numbering_(parts.tables.sync()) {}

  // The arguments of PsClient::Push that describe the push.
  struct Input {
    uint64_t step;
    float learning_rate;
    int64_t event_time_ms;
    const std::vector<PsConstTensor>& gradients;
    const std::vector<PsConstRows>& rows;
  };
  // Implements PsClient::Push and, if `params` is not null, PsClient::PushPull.
  void Push(const Input& input, PullCondition when, const std::vector<PsTensor>* params,
            PsClient::DoneVersion done);

  // ---- For messages that are split again while their push is in progress ------------------------
  // Adds the rows to the parts of their owners. Adds an entry for every table of `rows` to the part
  // of each server of `all`, possibly without rows.
  Status AppendRows(const std::vector<PsConstRows>& rows, const OwnerMap& owners,
                    const std::set<size_t>& all, std::vector<PushPart>& parts) const;
  void Number(std::span<PushPart> parts);
  std::vector<uint64_t> Ended() { return numbering_.Ended(); }
  // Sends one message for each part of `pushes`. Adds each pull of `pulls` to a push to the same
  // server, if there is one, and sends all other pulls separately. `done` receives the version of
  // the pulls, or of the pushes if there are no pulls. REQUIRES: the parts are numbered.
  void SendAll(std::vector<PushPart> pushes, PullParts pulls, const PushCall& like,
               PsClient::DoneVersion done);
  // Sends a message. Every attempt sends the same bytes.
  void Send(std::shared_ptr<PushCall> push);

 private:
  // Splits a push into parts: one for each server or, with split_messages, one for each slice. A
  // server without slices and rows of the push gets no part.
  StatusOr<std::vector<PushPart>> Split(const Input& input);
  // Sends a new message. If pushes are kept, first waits for room in the retransmit buffer.
  void Begin(std::shared_ptr<PushCall> push);
  void OnReply(const std::shared_ptr<PushCall>& push, const Status& status, codec::Fragments reply);
  // Returns the group of the messages of one push; null: each rejected message can be handled
  // without the others.
  std::shared_ptr<PushGroup> GroupOf(const std::vector<PushPart>& parts) const;
  void CopyToChannel(const PsServer& server, codec::CodedPush& push) const;

  const Parts parts_;
  PushNumbering numbering_;
};

// Returns INVALID_ARGUMENT if a server has several parts, because the gradients of a step are too
// large for one message. Only for PsJobRules::each_step_once.
Status CheckOneMessage(const std::vector<PushPart>& parts);
// Returns the last part for `server` if `room` more bytes fit into the part; otherwise adds a new
// part.
PushPart& PartOf(size_t server, size_t room, std::vector<PushPart>& parts);

}  // namespace tandem::ps
