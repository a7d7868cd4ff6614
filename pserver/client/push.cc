#include "pserver/client/push.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/base/require.h"
#include "common/base/step_number.h"
#include "common/tensor/finite.h"
#include "pserver/client/fan_in_callback.h"

namespace tandem::ps {
namespace {

constexpr size_t kPushBytesMax = size_t{512} << 20;  // maximum bytes of one message
constexpr size_t kRowBytesMax = size_t{512} << 20;   // maximum bytes of one table in one message
// Minimum bytes of a push for which the client requests memory of the channel. A smaller push is
// copied anyway.
constexpr size_t kPlacedBytesMin = 64 << 10;

// Rows of a table for one server, in memory that the push owns.
struct OwnedRows {
  std::vector<int64_t> ids;
  std::vector<float> values;
};

void AppendSlices(const std::string& table, int64_t width, std::shared_ptr<const OwnedRows> rows,
                  PushPart& part) {
  const auto n = static_cast<int64_t>(rows->ids.size());
  TD_REQUIRE(rows->values.size() == static_cast<size_t>(n * width));
  codec::CodedSlice ids, values;
  ids.variable = values.variable = table;
  ids.desc = {DType::kI64, {n}};
  ids.data = rows->ids.data();
  values.desc = {DType::kF32, {n, width}};
  values.data = rows->values.data();
  ids.keep = values.keep = std::move(rows);
  part.bytes += ids.desc.bytes() + values.desc.bytes();
  part.slices.push_back(std::move(ids));
  part.slices.push_back(std::move(values));
}

// The contents of a reply to a push.
struct PushResult {
  // The version in the reply to the pull, if the server also replied to a pull in the message;
  // otherwise the version in the reply to the push.
  StatusOr<uint64_t> version;
  PushNumbers numbers = {};
  bool pull_missing = false;  // the message had a pull, but the reply has no result of the pull
};

PushResult TakePush(const PullPart* pull, codec::Fragments message) {
  const StatusOr<codec::CodedPushReply> reply = codec::DecodePushReply(message);
  if (!reply.ok()) return {.version = reply.status()};
  PushResult result{reply->version, {reply->log_number, reply->kept_number}};
  result.pull_missing = pull != nullptr && !reply->pulled;
  if (pull != nullptr && reply->pulled) result.version = TakePull(*pull, message, *reply->pulled);
  return result;
}

}  // namespace

void Pusher::Push(const Input& input, PullCondition when, const std::vector<PsTensor>* params,
                  PsClient::DoneVersion done) {
  const std::string what = absl::StrFormat("push of step %d", DisplayStep(input.step));
  StatusOr<std::vector<PushPart>> pushes = Split(input);
  if (!pushes.ok()) return done(Annotate(pushes.status(), what));
  PullParts pulls;
  if (params != nullptr) {
    StatusOr<PullParts> split = parts_.puller.Split(*params, when);
    if (!split.ok()) return done(Annotate(split.status(), what));
    pulls = *std::move(split);
  }
  const PushNumbering::Push began = numbering_.Begin(parts_.placement.server_count());
  Number(*pushes);
  const PushCall like{.part = {}, .group = GroupOf(*pushes)};
  SendAll(*std::move(pushes), std::move(pulls), like,
          [this, began, what, done = std::move(done)](StatusOr<uint64_t> version) {
            numbering_.End(began);
            done(version.ok() ? std::move(version) : Annotate(version.status(), what));
          });
}

StatusOr<std::vector<PushPart>> Pusher::Split(const Input& input) {
  const std::shared_ptr<const void> lease = parts_.caller.Lease();
  std::vector<PushPart> parts;
  const auto owners = parts_.placement.Owners();
  for (const PsConstTensor& g : input.gradients) {
    TD_ASSIGN_OR_RETURN(const size_t variable, parts_.tables.FindVariable(g.variable, g.numel));
    for (const size_t s : parts_.tables.SlicesOf(variable)) {
      const PsSlice& block = parts_.tables.slices()[s];
      const size_t bytes = static_cast<size_t>(block.numel) * sizeof(float);
      const size_t room = parts_.options.split_messages ? kPushBytesMax : bytes;
      PushPart& part = PartOf(owners->slices[s], room, parts);
      codec::CodedSlice slice;
      slice.variable = g.variable;
      slice.offset = block.offset;
      slice.desc = {DType::kF32, Shape{block.numel}};
      slice.data = g.data + block.offset;
      slice.keep = lease;
      part.slices.push_back(std::move(slice));
      part.bytes += bytes;
    }
  }
  TD_RETURN_IF_ERROR(AppendRows(input.rows, *owners, owners->RowOwners(), parts));
  if (parts.empty()) return InvalidArgument("push: expected at least one gradient, got none");
  const PsOptions& options = parts_.options;
  if (options.rules.each_step_once) TD_RETURN_IF_ERROR(CheckOneMessage(parts));
  for (PushPart& part : parts) {
    part.header = {.caller = {options.job, options.trainer, options.incarnation},
                   .step = input.step,
                   .learning_rate = input.learning_rate,
                   .generation = owners->generations[part.server],
                   .once = options.rules.each_step_once,
                   .event_time_ms = input.event_time_ms};
  }
  return parts;
}

// A server that has a part of a step counts the step, so a kill could lose the other parts.
Status CheckOneMessage(const std::vector<PushPart>& parts) {
  std::set<size_t> servers;
  for (const PushPart& part : parts) {
    if (servers.insert(part.server).second) continue;
    return InvalidArgument(
        "the gradients of a step for pserver %d exceed %d bytes, so the step cannot be sent in one "
        "message, which a stream needs [TD1004]; hint: use more pservers or a smaller batch",
        part.server, kPushBytesMax);
  }
  return OkStatus();
}

PushPart& PartOf(size_t server, size_t room, std::vector<PushPart>& parts) {
  for (size_t i = parts.size(); i-- > 0;) {
    if (parts[i].server != server) continue;
    if (parts[i].bytes + room <= kPushBytesMax) return parts[i];
    break;
  }
  return parts.emplace_back(PushPart{.server = server});
}

Status Pusher::AppendRows(const std::vector<PsConstRows>& rows, const OwnerMap& owners,
                          const std::set<size_t>& all, std::vector<PushPart>& parts) const {
  for (const PsConstRows& r : rows) {
    TD_ASSIGN_OR_RETURN(const size_t table, parts_.tables.FindTable(r.variable));
    const int64_t width = parts_.tables.PushWidth(table);
    std::vector<std::shared_ptr<OwnedRows>> split(owners.generations.size());
    for (auto& part : split) {
      part = std::make_shared<OwnedRows>();
      part->ids.reserve(r.ids.size() / split.size());
      part->values.reserve(r.ids.size() / split.size() * static_cast<size_t>(width));
    }
    for (size_t i = 0; i < r.ids.size(); ++i) {
      OwnedRows& part = *split[owners.OwnerOf(static_cast<uint64_t>(r.ids[i]))];
      part.ids.push_back(r.ids[i]);
      const float* values = r.values + static_cast<int64_t>(i) * width;
      part.values.insert(part.values.end(), values, values + width);
    }
    for (size_t server = 0; server < split.size(); ++server) {
      const size_t count = split[server]->ids.size();
      if (count == 0 && !all.contains(server)) continue;
      const size_t bytes = split[server]->values.size() * sizeof(float);
      if (count > kRowsOfMessageMax || bytes > kRowBytesMax) {
        return InvalidArgument(
            "gradient of table %s: %d rows (%d bytes) go to %s, expected at most %d rows and %d "
            "bytes",
            r.variable, count, bytes, parts_.placement.ServerAt(server).name, kRowsOfMessageMax,
            kRowBytesMax);
      }
      AppendSlices(r.variable, width, std::move(split[server]), PartOf(server, 0, parts));
    }
  }
  return OkStatus();
}

void Pusher::Number(std::span<PushPart> parts) {
  numbering_.Number(parts, parts_.placement.server_count());
}

std::shared_ptr<PushGroup> Pusher::GroupOf(const std::vector<PushPart>& parts) const {
  if (!parts_.tables.sync()) {
    if (!parts_.options.rules.each_step_once) return nullptr;
    return std::make_shared<PushGroup>(parts, PushGroup::Joins::kAll);
  }
  if (parts_.tables.tables().empty()) return nullptr;
  return std::make_shared<PushGroup>(parts, PushGroup::Joins::kRows);
}

void Pusher::SendAll(std::vector<PushPart> pushes, PullParts pulls, const PushCall& like,
                     PsClient::DoneVersion done) {
  const bool pulled = !pulls.empty();
  // Adds each pull to the last push to the same server.
  PullParts with(pushes.size());
  for (size_t i = pushes.size(); i-- > 0;) {
    const auto pull = std::find_if(pulls.rbegin(), pulls.rend(), [&](const auto& part) {
      return part->server == pushes[i].server;
    });
    if (pull == pulls.rend()) continue;
    with[i] = std::move(*pull);
    pulls.erase(std::next(pull).base());
  }
  const auto join = std::make_shared<FanInCallback>(pushes.size() + pulls.size(), std::move(done));
  const auto arrive = [join](StatusOr<uint64_t> version) { join->Arrive(std::move(version)); };
  const auto arrive_pushed = [join](const StatusOr<uint64_t>& version) {
    // UINT64_MAX: only the pulls determine the version of the result.
    join->Arrive(version.ok() ? UINT64_MAX : version);
  };
  for (size_t i = 0; i < pushes.size(); ++i) {
    const bool alone = pulled && with[i] == nullptr;
    const Duration grace = with[i] == nullptr ? Duration::zero() : kGrace;
    auto push = std::make_shared<PushCall>(like);
    push->part = std::move(pushes[i]);
    push->pull = std::move(with[i]);
    push->done = alone ? PsClient::DoneVersion(arrive_pushed) : PsClient::DoneVersion(arrive);
    push->deadline = parts_.caller.Now() + parts_.options.patience.call_timeout() + grace;
    if (push->group != nullptr) push->group->Begin(*push);
    Begin(std::move(push));
  }
  for (const auto& part : pulls) parts_.puller.Send(part, arrive);
}

void Pusher::Begin(std::shared_ptr<PushCall> push) {
  if (!parts_.resender.enabled()) return Send(std::move(push));
  parts_.admission.Admit(push->part.header.step, push->part.bytes, push->deadline,
                         [this, push](const Status& admitted) {
                           if (!admitted.ok()) {
                             if (push->group != nullptr) push->group->End(*push, admitted);
                             return push->done(admitted);
                           }
                           push->part = parts_.resender.kept().Keep({push->part});
                           Send(push);
                         });
}

void Pusher::Send(std::shared_ptr<PushCall> push) {
  const PsServer& server = parts_.placement.ServerAt(push->part.server);
  // The first attempt is not stale, because the push has just been split by the current owners.
  push->stale =
      push->attempts > 0 && IsStale(push->part, *parts_.placement.Owners(), parts_.tables);
  codec::CodedPush coded =
      ToCoded(push->part, push->pull == nullptr ? "" : parts_.puller.Request(*push->pull));
  CopyToChannel(server, coded);
  const Time deadline = push->deadline;
  parts_.caller.Send(server, rpc::PserverCall::kPush, codec::EncodePush(coded), deadline,
                     [this, push = std::move(push)](const Status& status, codec::Fragments reply) {
                       OnReply(push, status, reply);
                     });
}

// Copies the gradients into memory of the channel, from which the channel sends without another
// copy, and checks the gradients for NaN and infinity. If the channel has no such memory, the
// server makes this check.
void Pusher::CopyToChannel(const PsServer& server, codec::CodedPush& push) const {
  const auto aligned = [](size_t n) {
    return (n + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
  };
  size_t bytes = 0;
  for (const codec::CodedSlice& s : push.slices) bytes += aligned(s.desc.bytes());
  if (bytes < kPlacedBytesMin) return;
  const Buffer memory = parts_.caller.Allocate(server, bytes);
  if (memory == nullptr) return;
  push.header.finite = true;
  std::byte* to = memory.get();
  for (codec::CodedSlice& s : push.slices) {
    if (s.desc.dtype != DType::kF32) {  // row ids, which need no check
      std::memcpy(to, s.data, s.desc.bytes());
    } else if (!CopyFinite(static_cast<const float*>(s.data), reinterpret_cast<float*>(to),
                           static_cast<size_t>(s.desc.shape.numel()))) {
      push.header.finite = false;
    }
    s.data = to;
    s.keep = memory;
    to += aligned(s.desc.bytes());
  }
  TD_REQUIRE(to == memory.get() + bytes);
}

void Pusher::OnReply(const std::shared_ptr<PushCall>& push, const Status& status,
                     codec::Fragments reply) {
  if (HasMoved(status)) return parts_.refusals.OnMoved(push, status);
  // Only in a_sync mode: in sync mode, a drained server runs until trainers have made one step
  // after its last move.
  // Only in a stream may a second server of the same contents be gone: there the step says which
  // server has them.
  const bool may_ask = push->part.header.origin_server == 0 || push->part.header.once;
  if (IsGone(status) && may_ask && !parts_.tables.sync()) {
    return parts_.refusals.OnGone(push, status);
  }
  PushResult result{.version = uint64_t{0}};
  if (status.ok()) result = TakePush(push->pull.get(), reply);
  if (parts_.resender.enabled()) {
    parts_.resender.OnEnd(push->part, push->pull != nullptr, status, result.numbers);
  }
  if (push->group != nullptr) push->group->End(*push, status);
  if (!status.ok()) return push->done(status);
  if (!result.version.ok()) {
    const PsServer& server = parts_.placement.ServerAt(push->part.server);
    return push->done(Annotate(result.version.status(), server.name));
  }
  if (result.pull_missing) return parts_.puller.Send(push->pull, push->done);
  push->done(std::move(result.version));
}

}  // namespace tandem::ps
