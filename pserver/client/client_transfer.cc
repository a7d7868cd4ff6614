// The part of PsClient that transfers tensors.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/base/nearest.h"
#include "common/base/step_number.h"
#include "common/codec/tensor_codec.h"
#include "common/rpc/byte_buffer.h"
#include "pserver/client/client_impl.h"

namespace tandem::ps {
namespace {

constexpr size_t kPushBytesMax = size_t{512} << 20;  // of one message
constexpr size_t kInitBytesMax = size_t{64} << 20;

// Parses the reply to `part` into the caller's memory.
StatusOr<uint64_t> TakePull(const PullPart& part, codec::Fragments message,
                            const codec::CodedPullReply& reply) {
  if (reply.slices.size() != part.to.size()) {
    return DataLoss("the reply has %d slices, expected %d", reply.slices.size(), part.to.size());
  }
  for (size_t i = 0; i < part.to.size(); ++i) {
    const codec::CodedSlice& s = reply.slices[i];
    const SliceRange& asked = part.request.range(static_cast<int>(i));
    if (s.variable != asked.variable() || s.offset != asked.offset() ||
        !(s.desc == TensorDesc{DType::kF32, Shape{asked.numel()}})) {
      return DataLoss("expected %s f32[%d] at element %d, got %s %s at element %d",
                      asked.variable(), asked.numel(), asked.offset(), s.variable, ToString(s.desc),
                      s.offset);
    }
    TD_RETURN_IF_ERROR(codec::CopyContent(message, s, part.to[i]));
  }
  return reply.version;
}

StatusOr<uint64_t> TakePullReply(const PullPart& part, codec::Fragments message) {
  TD_ASSIGN_OR_RETURN(const codec::CodedPullReply reply, codec::DecodePullReply(message));
  return TakePull(part, message, reply);
}

}  // namespace

PushPart& PartOf(size_t server, size_t room, std::vector<PushPart>& parts) {
  for (size_t i = parts.size(); i-- > 0;) {
    if (parts[i].server != server) continue;
    if (parts[i].bytes + room <= kPushBytesMax) return parts[i];
    break;
  }
  return parts.emplace_back(PushPart{.server = server, .slices = {}, .bytes = 0});
}

StatusOr<uint64_t> TakePushReply(const PullPart* pull, codec::Fragments message,
                                 PushNumbers* numbers) {
  TD_ASSIGN_OR_RETURN(const codec::CodedPushReply reply, codec::DecodePushReply(message));
  *numbers = {reply.log_number, reply.kept_number};
  if (pull == nullptr) return reply.version;
  numbers->pull_missing = !reply.pulled;
  if (!reply.pulled) return reply.version;
  return TakePull(*pull, message, *reply.pulled);
}

StatusOr<int> PsClient::Impl::VariableIndex(const std::string& name, int64_t numel) const {
  const auto it = variable_index.find(name);
  if (it == variable_index.end()) {
    return NotFound("unknown variable \"%s\" [TD1205]%s", name, OrDidYouMean(name, variable_names));
  }
  const PsVariable& variable = variables[it->second];
  if (numel != variable.shape.numel()) {
    return InvalidArgument("%s has %d elements, but its shape is %s", name, numel,
                           ToString(variable.shape));
  }
  return it->second;
}

StatusOr<std::vector<PushPart>> PsClient::Impl::PushParts(
    const std::vector<PsConstTensor>& gradients, const std::vector<PsConstRows>& rows) {
  const std::shared_ptr<const void> lease = WaitGroup::Take(leases);
  std::vector<PushPart> parts;
  const auto now = Placement();
  for (const PsConstTensor& g : gradients) {
    TD_ASSIGN_OR_RETURN(const int variable, VariableIndex(g.variable, g.numel));
    for (size_t b : blocks_of[variable]) {
      const PsSlice& block = blocks[b];
      const size_t bytes = static_cast<size_t>(block.numel) * sizeof(float);
      const size_t room = options.split_messages ? kPushBytesMax : bytes;
      PushPart& part = PartOf(now->blocks[b], room, parts);
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
  TD_RETURN_IF_ERROR(AppendRows(rows, *now, now->RowOwners(), parts));
  if (parts.empty()) return InvalidArgument("push: expected at least one gradient, got none");
  for (PushPart& part : parts) part.generation = now->generations[part.server];
  return parts;
}

std::vector<uint64_t> PsClient::Impl::Sent() const {
  std::vector<uint64_t> sent;
  for (const auto& server : servers) sent.push_back(server->sequence);
  for (const auto& [index, server] : added) {
    sent.resize(std::max(sent.size(), index + 1));
    sent[index] = server->sequence;
  }
  return sent;
}

PsClient::Impl::Outstanding::iterator PsClient::Impl::BeginPush() {
  MutexLock lock(mu);
  return outstanding.insert(outstanding.end(), Sent());
}

void PsClient::Impl::EndPush(Outstanding::iterator push) {
  MutexLock lock(mu);
  outstanding.erase(push);
}

void PsClient::Impl::Number(std::span<PushPart> parts) {
  MutexLock lock(mu);
  for (PushPart& part : parts) {
    Server& server = part.server < servers.size() ? *servers[part.server] : *added.at(part.server);
    part.sequence = ++server.sequence;
  }
  if (sync) return;  // the step identifies the messages of one push
  const std::vector<uint64_t> sent = Sent();
  for (PushPart& part : parts) {
    part.sent = sent;
    part.ended = outstanding.front();
  }
}

StatusOr<std::vector<std::shared_ptr<PullPart>>> PsClient::Impl::PullParts(
    const std::vector<PsTensor>& params, PullCondition when) const {
  std::vector<std::shared_ptr<PullPart>> parts;
  const auto now = Placement();
  std::map<size_t, PullPart*> open;  // by server: the part being filled
  for (const PsTensor& p : params) {
    TD_ASSIGN_OR_RETURN(const int variable, VariableIndex(p.variable, p.numel));
    for (size_t b : blocks_of[variable]) {
      const PsSlice& block = blocks[b];
      PullPart*& part = open[now->blocks[b]];
      if (part == nullptr || options.split_messages) {
        parts.push_back(std::make_shared<PullPart>());
        part = parts.back().get();
        part->server = now->blocks[b];
        FillWhen(when, &part->request);
      }
      SliceRange* range = part->request.add_range();
      range->set_variable(p.variable);
      range->set_offset(block.offset);
      range->set_numel(block.numel);
      part->to.push_back(p.data + block.offset);
    }
  }
  if (parts.empty()) return InvalidArgument("pull: expected at least one variable, got none");
  return parts;
}

void PsClient::Impl::SendPull(std::shared_ptr<PullPart> part, DoneVersion done) {
  Server& server = ServerAt(part->server);
  codec::EncodedMessage request = rpc::EncodedProto(part->request);
  if (part->deadline == Time()) part->deadline = carrier->Now() + call_timeout() + kGrace;
  const Time deadline = part->deadline;
  Send(server, "Pull", std::move(request), deadline,
       [this, part = std::move(part), &server, done = std::move(done)](const Status& status,
                                                                       codec::Fragments answer) {
         const bool moved = HasMoved(status) && carrier->Now() < part->deadline;
         if (moved || (IsGone(status) && !sync && Placement()->map.MovesSlices())) {
           return PullElsewhere(part, moved, status, done);
         }
         if (!status.ok()) return done(status);
         StatusOr<uint64_t> version = TakePullReply(*part, answer);
         done(version.ok() ? std::move(version) : Annotate(version.status(), server.name));
       });
}

void PsClient::Push(uint64_t step, float learning_rate, std::vector<PsConstTensor> gradients,
                    Done done, const std::vector<PsConstRows>& rows) {
  const std::string what = absl::StrFormat("push of step %d", DisplayStep(step));
  StatusOr<std::vector<PushPart>> parts = impl_->PushParts(gradients, rows);
  if (!parts.ok()) return done(Annotate(parts.status(), what));
  const auto began = impl_->BeginPush();
  impl_->Number(*parts);
  auto join = std::make_shared<FanInCallback>(
      static_cast<int>(parts->size()),
      [impl = impl_.get(), began, what, done = std::move(done)](StatusOr<uint64_t> version) {
        impl->EndPush(began);
        done(Annotate(version.status(), what));
      });
  const auto group = impl_->GroupOf(*parts);
  for (PushPart& part : *parts) {
    impl_->SendPush(part, step, learning_rate, nullptr, group,
                    [join](StatusOr<uint64_t> version) { join->Arrive(std::move(version)); });
  }
}

void PsClient::Pull(PullCondition when, std::vector<PsTensor> params, DoneVersion done) {
  const std::string what = absl::StrFormat("pull of version %d", when.version);
  auto parts = impl_->PullParts(params, when);
  if (!parts.ok()) return done(Annotate(parts.status(), what));
  auto join = std::make_shared<FanInCallback>(
      static_cast<int>(parts->size()), [what, done = std::move(done)](StatusOr<uint64_t> version) {
        done(version.ok() ? std::move(version) : Annotate(version.status(), what));
      });
  for (auto& part : *parts) {
    impl_->SendPull(part, [join](StatusOr<uint64_t> version) { join->Arrive(std::move(version)); });
  }
}

void PsClient::PushPull(uint64_t step, float learning_rate, std::vector<PsConstTensor> gradients,
                        PullCondition when, std::vector<PsTensor> params, DoneVersion done,
                        const std::vector<PsConstRows>& rows) {
  const std::string what = absl::StrFormat("push of step %d", DisplayStep(step));
  StatusOr<std::vector<PushPart>> pushes = impl_->PushParts(gradients, rows);
  if (!pushes.ok()) return done(Annotate(pushes.status(), what));
  auto pulls = impl_->PullParts(params, when);
  if (!pulls.ok()) return done(Annotate(pulls.status(), what));
  // Joins pulls with pushes to the same server, from the last ones on. The remaining pulls are sent
  // separately.
  std::vector<std::shared_ptr<PullPart>> with(pushes->size());
  for (size_t i = pushes->size(); i-- > 0;) {
    const auto pull = std::find_if(pulls->rbegin(), pulls->rend(), [&](const auto& part) {
      return part->server == (*pushes)[i].server;
    });
    if (pull == pulls->rend()) continue;
    with[i] = std::move(*pull);
    pulls->erase(std::next(pull).base());
  }
  const auto began = impl_->BeginPush();
  impl_->Number(*pushes);
  auto join = std::make_shared<FanInCallback>(
      static_cast<int>(pushes->size() + pulls->size()),
      [impl = impl_.get(), began, what, done = std::move(done)](StatusOr<uint64_t> version) {
        impl->EndPush(began);
        done(version.ok() ? std::move(version) : Annotate(version.status(), what));
      });
  const auto arrive = [join](StatusOr<uint64_t> version) { join->Arrive(std::move(version)); };
  const auto arrive_pushed = [join](const StatusOr<uint64_t>& version) {
    join->Arrive(version.ok() ? UINT64_MAX : version);  // the pulls deliver the version
  };
  const auto group = impl_->GroupOf(*pushes);
  for (size_t i = 0; i < pushes->size(); ++i) {
    impl_->SendPush((*pushes)[i], step, learning_rate, with[i], group,
                    with[i] == nullptr ? DoneVersion(arrive_pushed) : DoneVersion(arrive));
  }
  for (auto& part : *pulls) impl_->SendPull(part, arrive);
}

Status PsClient::Impl::FillSlots(std::span<const PsSlot> slots, const PsSlice& block,
                                 InitParamsRequest* request) const {
  const PsVariable& variable = variables[block.variable];
  for (const PsSlot& s : slots) {
    if (s.variable != variable.name) continue;
    const auto numel = static_cast<int64_t>(s.values.size());
    const bool whole = numel == variable.shape.numel();
    if (!whole && numel != 1) {
      return InvalidArgument("slot %s has %d elements, expected %d or 1", s.slot, numel,
                             variable.shape.numel());
    }
    SlotTensor* slot = request->add_slot();
    slot->set_variable(s.variable);
    slot->set_offset(block.offset);
    slot->set_slot(s.slot);
    slot->mutable_tensor()->set_dtype(F32);
    slot->mutable_tensor()->add_dims(whole ? block.numel : 1);
    const float* from = s.values.data() + (whole ? block.offset : 0);
    slot->mutable_tensor()->set_content(
        from, static_cast<size_t>(whole ? block.numel : 1) * sizeof(float));
  }
  return OkStatus();
}

Status PsClient::Impl::SendInit(std::span<const PsTensor> params, uint64_t version,
                                std::span<const PsSlot> slots, const RowSource& rows) {
  std::vector<const PsTensor*> by_variable(variables.size(), nullptr);
  for (const PsTensor& p : params) {
    TD_ASSIGN_OR_RETURN(const int index, VariableIndex(p.variable, p.numel));
    by_variable[index] = &p;
  }
  if (init_again && version != 0) {
    return FailedPrecondition(
        "the initial parameters are of step %d, but some servers are at step 0 [TD7012]; hint: "
        "start all servers with their directories, or none",
        version);
  }
  for (size_t i = 0; i < servers.size(); ++i) {
    if (initialised[i] || !owns_any(*servers[i])) continue;
    // Rows are sent before the slices: the last slice makes the server initialised.
    TD_RETURN_IF_ERROR(SendInitRows(i, version, slots, rows));
    if (servers[i]->blocks.empty()) continue;
    InitParamsRequest request;
    InitParamsReply reply;
    const std::vector<size_t>& mine = servers[i]->blocks;
    for (size_t j = 0; j < mine.size(); ++j) {
      const PsSlice& block = blocks[mine[j]];
      const PsTensor* p = by_variable[block.variable];
      if (p == nullptr) {
        return InvalidArgument("variable %s has no initial value", variables[block.variable].name);
      }
      FillCaller(&request);
      request.set_version(version);
      SliceTensor* slice = request.add_param();
      slice->set_variable(p->variable);
      slice->set_offset(block.offset);
      slice->mutable_tensor()->set_dtype(F32);
      slice->mutable_tensor()->add_dims(block.numel);
      slice->mutable_tensor()->set_content(p->data + block.offset,
                                           static_cast<size_t>(block.numel) * sizeof(float));
      TD_RETURN_IF_ERROR(FillSlots(slots, block, &request));
      const bool last = j + 1 == mine.size();
      if (!last && request.ByteSizeLong() < kInitBytesMax) continue;
      TD_RETURN_IF_ERROR(
          CallAndWait(*servers[i], "InitParams", request, &reply, options.start_timeout));
      request.Clear();
    }
    if (!reply.initialised()) {
      return Internal("%s received all initial parameters, but reports that it is not initialised",
                      servers[i]->name);
    }
  }
  return OkStatus();
}

StatusOr<uint64_t> PsClient::InitOrFetch(std::span<const PsTensor> params, uint64_t version,
                                         std::span<const PsSlot> slots,
                                         std::span<const PsTableRows> rows) {
  return InitOrFetch(params, version, slots, [rows](const RowSink& take) {
    for (const PsTableRows& table : rows) TD_RETURN_IF_ERROR(take(table));
    return OkStatus();
  });
}

StatusOr<uint64_t> PsClient::InitOrFetch(std::span<const PsTensor> params, uint64_t version,
                                         std::span<const PsSlot> slots, const RowSource& rows) {
  Impl& impl = *impl_;
  if (impl.options.trainer == 0) TD_RETURN_IF_ERROR(impl.SendInit(params, version, slots, rows));
  uint64_t lowest = UINT64_MAX;
  for (Impl::Server* const server : impl.AllServers()) {
    if (!impl.owns_any(*server)) continue;
    WaitInitRequest request;
    const auto reply = std::make_shared<WaitInitReply>();
    impl.FillCaller(&request);
    request.set_timeout_ms(
        static_cast<uint64_t>(std::max<int64_t>(1, Millis(impl.options.start_timeout))));
    TD_ASSIGN_OR_RETURN(const bool owns, impl.CallOwner(*server, "WaitInit", request, reply,
                                                        impl.options.start_timeout));
    if (!owns) continue;
    lowest = std::min<uint64_t>(lowest, reply->version());
  }
  if (lowest == UINT64_MAX) lowest = 0;
  if (params.empty()) return lowest;  // only tables
  struct Waiting {
    std::unique_ptr<PsEvent> ended;
    StatusOr<uint64_t> version;
  };
  const auto waiting = std::make_shared<Waiting>(Waiting{impl.carrier->MakeEvent(), 0});
  // Servers may be one step apart if this trainer replaces a killed one. In other modes, a server
  // that was restarted meanwhile may have a lower version than it reported (wal_sync interval).
  Pull({.version = impl.sync ? lowest : 0, .exactly = impl.sync}, {params.begin(), params.end()},
       [waiting](StatusOr<uint64_t> pulled) {
         waiting->version = std::move(pulled);
         waiting->ended->Set();
       });
  if (!waiting->ended->WaitUntil(impl.carrier->Now() + impl.call_timeout() + 2 * kGrace)) {
    return DeadlineExceeded("a pull of the initial parameters did not end in time [TD4025]");
  }
  return waiting->version;
}

// Repeats if slices moved meanwhile: some may be missing or repeated.
StatusOr<std::vector<PsSlot>> PsClient::PullState() {
  const Time give_up = impl_->carrier->Now() + impl_->call_timeout();
  for (int attempts = 0;; ++attempts) {
    const bool moves = impl_->Placement()->map.version() != 0;
    if (moves) TD_RETURN_IF_ERROR(impl_->ExchangeAndWait(attempts));
    const uint64_t before = impl_->Placement()->map.version();
    StatusOr<std::vector<PsSlot>> slots = impl_->PullStateOnce();
    TD_RETURN_IF_ERROR(impl_->ExchangeAndWait(attempts));
    if (impl_->Placement()->map.version() == before) return slots;
    if (impl_->carrier->Now() >= give_up) {
      return Unavailable(
          "cannot read the optimizer state, because servers are transferring slices; hint: try "
          "again");
    }
  }
}

StatusOr<std::vector<PsSlot>> PsClient::Impl::PullStateOnce() {
  Impl& impl = *this;
  std::vector<std::vector<PsSlot>> by_variable(impl.variables.size());
  std::vector<PsSlot> of_tables;
  for (Impl::Server* const server : impl.AllServers()) {
    if (!impl.owns_any(*server)) continue;
    PullStateRequest request;
    const auto reply = std::make_shared<PullStateReply>();
    request.set_job(impl.options.job);
    TD_ASSIGN_OR_RETURN(const bool owns, impl.CallOwner(*server, "PullState", request, reply,
                                                        impl.options.start_timeout));
    if (!owns) continue;
    for (const SlotTensor& s : reply->slot()) {
      const auto it = impl.variable_index.find(s.variable());
      if (it == impl.variable_index.end() && impl.TableIndex(s.variable()).ok() &&
          s.tensor().content().size() == sizeof(float)) {
        const auto known = std::any_of(of_tables.begin(), of_tables.end(),
                                       [&](const PsSlot& have) { return have.slot == s.slot(); });
        if (known) continue;  // all servers have the same value
        of_tables.push_back({s.variable(), s.slot(), std::vector<float>(1)});
        std::memcpy(of_tables.back().values.data(), s.tensor().content().data(), sizeof(float));
        continue;
      }
      if (it == impl.variable_index.end()) {
        return DataLoss("%s sent a slot of the unknown variable %s", server->name, s.variable());
      }
      const int64_t whole = impl.variables[it->second].shape.numel();
      const int64_t numel = s.tensor().dims_size() == 1 ? s.tensor().dims(0) : -1;
      const bool one =
          numel == 1 && whole != 1 && impl.blocks[impl.blocks_of[it->second][0]].numel != 1;
      if (s.offset() < 0 || numel < 1 || (!one && numel > whole - s.offset()) ||
          s.tensor().content().size() != static_cast<size_t>(numel) * sizeof(float)) {
        return DataLoss("%s sent slot %s, which does not fit its variable", server->name, s.slot());
      }
      auto& slots = by_variable[it->second];
      auto slot = std::find_if(slots.begin(), slots.end(),
                               [&](const PsSlot& have) { return have.slot == s.slot(); });
      if (slot == slots.end()) {
        slots.push_back({s.variable(), s.slot(),
                         std::vector<float>(static_cast<size_t>(one ? 1 : whole), 0.0f)});
        slot = std::prev(slots.end());
      }
      std::memcpy(slot->values.data() + (one ? 0 : s.offset()), s.tensor().content().data(),
                  s.tensor().content().size());
    }
  }
  std::vector<PsSlot> all;
  for (auto& slots : by_variable) {
    for (PsSlot& slot : slots) all.push_back(std::move(slot));
  }
  for (PsSlot& slot : of_tables) all.push_back(std::move(slot));
  return all;
}

}  // namespace tandem::ps
