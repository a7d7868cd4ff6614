#include "pserver/client/pull.h"

#include <utility>

#include "common/base/require.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/client/fan_in_callback.h"

namespace tandem::ps {
namespace {

StatusOr<uint64_t> TakePullReply(const PullPart& part, codec::Fragments message) {
  TD_ASSIGN_OR_RETURN(const codec::CodedPullReply reply, codec::DecodePullReply(message));
  return TakePull(part, message, reply);
}

PullRequest ToProto(const PullPart& part, const RequestFiller& requests) {
  PullRequest request;
  requests.FillPull(part.when, &request);
  if (part.any_version) request.set_min_version(0);
  for (const PullPart::Range& r : part.ranges) {
    SliceRange* range = request.add_range();
    range->set_variable(r.variable);
    range->set_offset(r.offset);
    range->set_numel(r.numel);
  }
  return request;
}

}  // namespace

void Puller::Pull(PullCondition when, const std::vector<PsTensor>& params,
                  PsClient::DoneVersion done) {
  const std::string what = absl::StrFormat("pull of version %d", when.version);
  const StatusOr<PullParts> parts = Split(params, when);
  if (!parts.ok()) return done(Annotate(parts.status(), what));
  const auto join = std::make_shared<FanInCallback>(
      parts->size(), [what, done = std::move(done)](StatusOr<uint64_t> version) {
        done(version.ok() ? std::move(version) : Annotate(version.status(), what));
      });
  for (const auto& part : *parts) {
    Send(part, [join](StatusOr<uint64_t> version) { join->Arrive(std::move(version)); });
  }
}

StatusOr<PullParts> Puller::Split(const std::vector<PsTensor>& params, PullCondition when) {
  requests_.NoteStep(when.step);
  PullParts parts;
  const auto owners = placement_.Owners();
  std::map<size_t, PullPart*> open;  // by server: the part to which slices are being added
  for (const PsTensor& p : params) {
    TD_ASSIGN_OR_RETURN(const size_t variable, tables_.FindVariable(p.variable, p.numel));
    for (const size_t s : tables_.SlicesOf(variable)) {
      const PsSlice& slice = tables_.slices()[s];
      PullPart*& part = open[owners->slices[s]];
      if (part == nullptr || options_.split_messages) {
        parts.push_back(
            std::make_shared<PullPart>(PullPart{.server = owners->slices[s], .when = when}));
        part = parts.back().get();
      }
      part->ranges.push_back({p.variable, slice.offset, slice.numel, p.data + slice.offset});
    }
  }
  if (parts.empty()) return InvalidArgument("pull: expected at least one variable, got none");
  return parts;
}

std::string Puller::Request(const PullPart& part) const {
  return ToProto(part, requests_).SerializeAsString();
}

void Puller::Send(std::shared_ptr<PullPart> part, PsClient::DoneVersion done) {
  TD_REQUIRE(!part->ranges.empty());
  const PsServer& server = placement_.ServerAt(part->server);
  if (part->deadline == Time())
    part->deadline = caller_.Now() + options_.patience.call_timeout() + kGrace;
  const Time deadline = part->deadline;
  codec::EncodedMessage request = rpc::EncodedProto(ToProto(*part, requests_));
  caller_.Send(server, rpc::PserverCall::kPull, std::move(request), deadline,
               [this, part = std::move(part), &server, done = std::move(done)](
                   const Status& status, codec::Fragments answer) {
                 const bool moved = HasMoved(status) && caller_.Now() < part->deadline;
                 const bool may_have_moved =
                     IsGone(status) && !tables_.sync() && placement_.Owners()->map.MovesSlices();
                 if (moved || may_have_moved) return SendElsewhere(part, moved, status, done);
                 if (!status.ok()) return done(status);
                 StatusOr<uint64_t> version = TakePullReply(*part, answer);
                 done(version.ok() ? std::move(version) : Annotate(version.status(), server.name));
               });
}

std::map<size_t, std::shared_ptr<PullPart>> Puller::Resplit(const PullParts& parts,
                                                            const OwnerMap& owners) const {
  std::map<size_t, std::shared_ptr<PullPart>> by_server;
  for (const auto& old : parts) {
    for (const PullPart::Range& range : old->ranges) {
      const size_t server = owners.slices[tables_.SliceAt(range.variable, range.offset)];
      auto& part = by_server[server];
      if (part == nullptr) {
        part = std::make_shared<PullPart>(*old);
        part->ranges.clear();
        part->server = server;
        // A slice moves with its values, so the pull need not wait for a version of the new owner.
        part->any_version |= !tables_.sync() && server != old->server;
      }
      part->ranges.push_back(range);
    }
  }
  return by_server;
}

void Puller::SendElsewhere(std::shared_ptr<PullPart> part, bool moved, const Status& why,
                           PsClient::DoneVersion done) {
  const auto again = [this, part, moved, why, done = std::move(done)] {
    const auto parts = Resplit({part}, *placement_.Owners());
    if (!moved && parts.contains(part->server)) return done(why);
    const auto join = std::make_shared<FanInCallback>(parts.size(), done);
    for (const auto& [server, next] : parts) {
      if (!moved) next->deadline = Time();
      Send(next, [join](StatusOr<uint64_t> version) { join->Arrive(std::move(version)); });
    }
  };
  if (!moved) return placement_.ExchangeAll({}, 2, again);
  caller_.After(PauseOf(part->attempts++), [this, again, server = part->server] {
    placement_.ExchangeAll({server}, 2, again);
  });
}

StatusOr<uint64_t> TakePull(const PullPart& part, codec::Fragments message,
                            const codec::CodedPullReply& reply) {
  if (reply.slices.size() != part.ranges.size()) {
    return DataLoss("the reply to the pull has %d slices, expected %d", reply.slices.size(),
                    part.ranges.size());
  }
  for (size_t i = 0; i < part.ranges.size(); ++i) {
    const codec::CodedSlice& s = reply.slices[i];
    const PullPart::Range& range = part.ranges[i];
    if (s.variable != range.variable || s.offset != range.offset ||
        !(s.desc == TensorDesc{DType::kF32, Shape{range.numel}})) {
      return DataLoss(
          "the reply to the pull is wrong: expected slice %s f32[%d] at element %d, got %s %s at "
          "element %d",
          range.variable, range.numel, range.offset, s.variable, ToString(s.desc), s.offset);
    }
    TD_RETURN_IF_ERROR(codec::CopyContent(message, s, range.to));
  }
  return reply.version;
}

}  // namespace tandem::ps
