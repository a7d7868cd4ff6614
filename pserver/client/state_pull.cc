#include "pserver/client/state_pull.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "proto/pserver.pb.h"

namespace tandem::ps {

StatusOr<std::vector<PsSlot>> StatePuller::Pull() {
  const Time give_up = caller_.Now() + options_.patience.call_timeout();
  for (int attempts = 0;; ++attempts) {
    const bool moves = placement_.Owners()->map.version() != 0;
    if (moves) TD_RETURN_IF_ERROR(caller_.ExchangeAndWait(attempts));
    const uint64_t before = placement_.Owners()->map.version();
    StatusOr<std::vector<PsSlot>> slots = PullOnce();
    TD_RETURN_IF_ERROR(caller_.ExchangeAndWait(attempts));
    if (placement_.Owners()->map.version() == before) return slots;
    if (caller_.Now() >= give_up) {
      return Unavailable(
          "cannot read the optimizer state, because servers are transferring slices; hint: try "
          "again after the migration");
    }
  }
}

StatusOr<std::vector<PsSlot>> StatePuller::PullOnce() {
  Slots found;
  found.by_variable.resize(tables_.variables().size());
  for (const PsServer* const server : placement_.Servers()) {
    if (!placement_.OwnsAny(*server)) continue;
    PullStateRequest request;
    const auto reply = std::make_shared<PullStateReply>();
    request.set_job(options_.job);
    TD_ASSIGN_OR_RETURN(const bool owns,
                        caller_.CallOwner(*server, rpc::PserverCall::kPullState, request, reply,
                                          options_.patience.start_timeout));
    if (!owns) continue;
    for (const SlotTensor& s : reply->slot()) TD_RETURN_IF_ERROR(Add(*server, s, found));
  }
  std::vector<PsSlot> all;
  for (auto& slots : found.by_variable)
    std::move(slots.begin(), slots.end(), std::back_inserter(all));
  std::move(found.of_tables.begin(), found.of_tables.end(), std::back_inserter(all));
  return all;
}

Status StatePuller::Add(const PsServer& server, const SlotTensor& s, Slots& all) const {
  const std::string& content = s.tensor().content();
  const auto has_name = [&s](const PsSlot& have) { return have.slot == s.slot(); };
  const std::optional<size_t> index = tables_.VariableIndex(s.variable());
  if (!index && tables_.FindTable(s.variable()).ok() && content.size() == sizeof(float)) {
    const auto known = std::any_of(all.of_tables.begin(), all.of_tables.end(), has_name);
    if (known) return OkStatus();  // all servers have the same value of the slot
    all.of_tables.push_back({s.variable(), s.slot(), std::vector<float>(1)});
    std::memcpy(all.of_tables.back().values.data(), content.data(), sizeof(float));
    return OkStatus();
  }
  if (!index)
    return DataLoss("%s sent a slot of the unknown variable %s", server.name, s.variable());
  const int64_t whole = tables_.variables()[*index].shape.numel();
  const int64_t numel = s.tensor().dims_size() == 1 ? s.tensor().dims(0) : -1;
  const bool one =
      numel == 1 && whole != 1 && tables_.slices()[tables_.SlicesOf(*index)[0]].numel != 1;
  if (s.offset() < 0 || numel < 1 || (!one && numel > whole - s.offset()) ||
      content.size() != static_cast<size_t>(numel) * sizeof(float)) {
    return DataLoss("%s sent slot %s, but the size of this slot does not match its variable",
                    server.name, s.slot());
  }
  auto& slots = all.by_variable[*index];
  auto slot = std::find_if(slots.begin(), slots.end(), has_name);
  if (slot == slots.end()) {
    slots.push_back(
        {s.variable(), s.slot(), std::vector<float>(static_cast<size_t>(one ? 1 : whole), 0.0f)});
    slot = std::prev(slots.end());
  }
  const auto at = static_cast<size_t>(one ? 0 : s.offset());
  if (at + static_cast<size_t>(numel) > slot->values.size()) {
    return DataLoss("%s sent parts of slot %s with contradicting sizes", server.name, s.slot());
  }
  std::memcpy(slot->values.data() + at, content.data(), content.size());
  return OkStatus();
}

}  // namespace tandem::ps
