#include "pserver/client/init.h"

#include <algorithm>
#include <memory>
#include <string>

#include "common/base/require.h"
#include "proto/pserver.pb.h"
#include "pserver/client/job/table_rows.h"

namespace tandem::ps {
namespace {

// Approximate maximum size of one message in bytes.
constexpr size_t kInitBytesMax = size_t{64} << 20;
// Maximum number of waiting rows (not admitted yet) in one message.
constexpr int kWaitingMax = 1 << 20;

Status FillSlots(std::span<const PsSlot> slots, const PsVariable& variable, const PsSlice& slice,
                 InitParamsRequest* request) {
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
    slot->set_offset(slice.offset);
    slot->set_slot(s.slot);
    slot->mutable_tensor()->set_dtype(F32);
    slot->mutable_tensor()->add_dims(whole ? slice.numel : 1);
    const float* from = s.values.data() + (whole ? slice.offset : 0);
    slot->mutable_tensor()->set_content(
        from, static_cast<size_t>(whole ? slice.numel : 1) * sizeof(float));
  }
  return OkStatus();
}

}  // namespace

// Collects rows of one table for one server, and sends them in messages of about kInitBytesMax
// bytes.
class ParamInitializer::RowMessages {
 public:
  RowMessages(ParamInitializer& init, const PsServer& server, uint64_t version)
      : init_(init), server_(server), version_(version) {}

  void Begin(const std::string& table) {
    request_.Clear();
    init_.requests_.FillCaller(&request_);
    request_.set_version(version_);
    rows_ = request_.add_rows();
    rows_->set_variable(table);
  }
  const std::string& table() const { return rows_->variable(); }
  void AddScalar(const PsSlot& s) {
    TD_REQUIRE(s.values.size() == 1);
    SlotTensor* slot = request_.add_slot();
    slot->set_variable(s.variable);
    slot->set_slot(s.slot);
    slot->mutable_tensor()->set_dtype(F32);
    slot->mutable_tensor()->add_dims(1);
    slot->mutable_tensor()->set_content(s.values.data(), sizeof(float));
  }
  Status Add(const PsTableRows& r) {
    const std::vector<size_t> begins = r.Begins();
    TD_ASSIGN_OR_RETURN(const size_t table, init_.tables_.FindTable(r.variable));
    const bool counted = init_.tables_.PushWidth(table) != init_.tables_.tables()[table].dim;
    for (size_t i = 0; i < r.ids.size(); ++i) {
      if (!IsMine(r.ids[i])) continue;
      rows_->add_id(r.ids[i]);
      rows_->mutable_content()->append(reinterpret_cast<const char*>(r.content.data() + begins[i]),
                                       (begins[i + 1] - begins[i]) * sizeof(float));
      if (!r.use.empty()) AddUse({&r.use[i], 1}, counted, rows_);
      if (rows_->content().size() >= kInitBytesMax) TD_RETURN_IF_ERROR(Send(false));
    }
    for (const PsTableRows::Waiting& w : r.waiting) {
      if (!IsMine(w.id)) continue;
      rows_->add_waiting_id(w.id);
      rows_->add_waiting_seen(w.seen);
      rows_->add_waiting_age(w.age);
      if (rows_->waiting_id_size() >= kWaitingMax) TD_RETURN_IF_ERROR(Send(false));
    }
    return OkStatus();
  }
  Status Send(bool last) {
    InitParamsReply reply;
    rows_->set_last(last);
    TD_RETURN_IF_ERROR(init_.caller_.CallAndWait(server_, rpc::PserverCall::kInitParams, request_,
                                                 &reply, init_.options_.patience.start_timeout));
    Begin(std::string(table()));
    return OkStatus();
  }

 private:
  bool IsMine(uint64_t id) const {
    return init_.placement_.Owners()->OwnerOf(id) == static_cast<size_t>(server_.index);
  }

  ParamInitializer& init_;
  const PsServer& server_;
  const uint64_t version_;
  InitParamsRequest request_;
  TableRows* rows_ = nullptr;  // the rows in `request_`
};

Status ParamInitializer::Send(const FoundValues& found, std::span<const PsTensor> params,
                              uint64_t version, std::span<const PsSlot> slots,
                              const RowSource& rows) {
  TD_REQUIRE(found.initialised.size() == placement_.first_servers().size());
  std::vector<const PsTensor*> by_variable(tables_.variables().size(), nullptr);
  for (const PsTensor& p : params) {
    TD_ASSIGN_OR_RETURN(const size_t index, tables_.FindVariable(p.variable, p.numel));
    by_variable[index] = &p;
  }
  if (found.init_again && version != 0) {
    return FailedPrecondition(
        "the initial parameters are of step %d, but some servers are at step 0 [TD7012]; hint: "
        "start all servers with their directories, or all servers without a directory",
        version);
  }
  for (const auto& server : placement_.first_servers()) {
    if (found.initialised[static_cast<size_t>(server->index)] || !placement_.OwnsAny(*server)) {
      continue;
    }
    // Sends rows before slices, because the server counts as initialised after the last slice.
    TD_RETURN_IF_ERROR(SendRows(*server, version, slots, rows));
    TD_RETURN_IF_ERROR(SendSlices(*server, by_variable, version, slots));
  }
  return OkStatus();
}

Status ParamInitializer::SendSlices(const PsServer& server,
                                    const std::vector<const PsTensor*>& by_variable,
                                    uint64_t version, std::span<const PsSlot> slots) {
  const std::vector<size_t>& mine = tables_.SlicesOn(static_cast<size_t>(server.index));
  if (mine.empty()) return OkStatus();
  InitParamsRequest request;
  InitParamsReply reply;
  for (size_t j = 0; j < mine.size(); ++j) {
    const PsSlice& slice = tables_.slices()[mine[j]];
    const PsVariable& variable = tables_.variables()[static_cast<size_t>(slice.variable)];
    const PsTensor* p = by_variable[static_cast<size_t>(slice.variable)];
    if (p == nullptr) return InvalidArgument("variable %s has no initial value", variable.name);
    requests_.FillCaller(&request);
    request.set_version(version);
    SliceTensor* sent = request.add_param();
    sent->set_variable(p->variable);
    sent->set_offset(slice.offset);
    sent->mutable_tensor()->set_dtype(F32);
    sent->mutable_tensor()->add_dims(slice.numel);
    sent->mutable_tensor()->set_content(p->data + slice.offset,
                                        static_cast<size_t>(slice.numel) * sizeof(float));
    TD_RETURN_IF_ERROR(FillSlots(slots, variable, slice, &request));
    const bool last = j + 1 == mine.size();
    if (!last && request.ByteSizeLong() < kInitBytesMax) continue;
    TD_RETURN_IF_ERROR(caller_.CallAndWait(server, rpc::PserverCall::kInitParams, request, &reply,
                                           options_.patience.start_timeout));
    request.Clear();
  }
  if (!reply.initialised()) {
    return Internal(
        "%s received all initial parameters, but reports that its parameters are not initialised",
        server.name);
  }
  return OkStatus();
}

Status ParamInitializer::SendRows(const PsServer& server, uint64_t version,
                                  std::span<const PsSlot> slots, const RowSource& rows) {
  const std::vector<PsTable>& tables = tables_.tables();
  if (tables.empty()) return OkStatus();
  RowMessages messages(*this, server, version);
  messages.Begin(tables[0].variable);
  TD_RETURN_IF_ERROR(rows([&](const PsTableRows& piece) -> Status {
    TD_RETURN_IF_ERROR(tables_.FindTable(piece.variable).status());
    if (piece.variable != messages.table()) {
      TD_RETURN_IF_ERROR(messages.Send(false));
      messages.Begin(piece.variable);
    }
    return messages.Add(piece);
  }));
  TD_RETURN_IF_ERROR(messages.Send(false));
  for (const PsTable& table : tables) {
    messages.Begin(table.variable);
    for (const PsSlot& s : slots) {
      if (s.variable != table.variable) continue;
      if (s.values.size() != 1) {
        return InvalidArgument(
            "slot %s of table %s has %d elements, expected 1: the slots of rows are sent with the "
            "rows",
            s.slot, s.variable, s.values.size());
      }
      messages.AddScalar(s);
    }
    TD_RETURN_IF_ERROR(messages.Send(true));
  }
  return OkStatus();
}

StatusOr<uint64_t> ParamInitializer::Wait() {
  uint64_t lowest = UINT64_MAX;
  for (const PsServer* const server : placement_.Servers()) {
    if (!placement_.OwnsAny(*server)) continue;
    WaitInitRequest request;
    const auto reply = std::make_shared<WaitInitReply>();
    requests_.FillCaller(&request);
    request.set_timeout_ms(RequestFiller::TimeoutMs(options_.patience.start_timeout));
    TD_ASSIGN_OR_RETURN(const bool owns,
                        caller_.CallOwner(*server, rpc::PserverCall::kWaitInit, request, reply,
                                          options_.patience.start_timeout));
    if (owns) lowest = std::min<uint64_t>(lowest, reply->version());
  }
  return lowest == UINT64_MAX ? 0 : lowest;
}

}  // namespace tandem::ps
