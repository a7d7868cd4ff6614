#include "pserver/client/client.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "common/codec/optimizer_def.h"
#include "common/rpc/byte_buffer.h"
#include "common/tensor/table_rules.h"
#include "pserver/client/carrier/grpc_ps_channel.h"
#include "pserver/client/client_impl.h"

namespace tandem::ps {
namespace {

constexpr int64_t kBlockElementsMax = int64_t{1} << 28;  // elements; 1 GiB in one message
constexpr uint32_t kIncarnationRange = 1 << 24;
constexpr Duration kInviteTimeout = std::chrono::seconds(3);

}  // namespace

PsClient::PsClient() : impl_(std::make_unique<Impl>()) {}
PsClient::~PsClient() { impl_->Close(); }
const std::vector<PsSlice>& PsClient::blocks() const { return impl_->blocks; }
size_t PsClient::kept_bytes() const { return impl_->kept == nullptr ? 0 : impl_->kept->bytes(); }
int PsClient::lanes() const { return impl_->lanes; }
uint64_t PsClient::lane_calls() const { return impl_->carrier->lane_calls(); }
PsCacheCounts PsClient::row_cache() const {
  if (impl_->cache == nullptr) return {};
  const RowCache::Counts counts = impl_->cache->counts();
  return {counts.hits, counts.misses};
}

StatusOr<std::unique_ptr<PsClient>> PsClient::Connect(const std::vector<std::string>& endpoints,
                                                      PsOptions options) {
  if (endpoints.empty())
    return InvalidArgument(
        "the client has no pserver addresses [TD3003]; hint: set --pservers=HOST:PORT,...");
  if (options.trainer < 0 || options.trainer >= options.trainers) {
    return InvalidArgument("trainer %d is out of range: ranks are 0 to %d", options.trainer,
                           options.trainers - 1);
  }
  TD_ASSIGN_OR_RETURN(auto carrier, GrpcPsChannel::Connect(endpoints, options));
  return Over(std::move(carrier), endpoints, std::move(options));
}

std::unique_ptr<PsClient> PsClient::Over(std::unique_ptr<PsChannel> carrier,
                                         const std::vector<std::string>& addresses,
                                         PsOptions options) {
  auto client = std::unique_ptr<PsClient>(new PsClient());
  Impl& impl = *client->impl_;
  options.partition.servers = static_cast<int>(addresses.size());
  impl.options = std::move(options);
  impl.carrier = std::move(carrier);
  for (const std::string& address : addresses) {
    auto server = std::make_unique<Impl::Server>();
    server->index = static_cast<int>(impl.servers.size());
    server->address = address;
    server->name = PserverName(server->index, address);
    impl.servers.push_back(std::move(server));
  }
  impl.FillOwners();
  return client;
}

void PsClient::Impl::FillConfigure(const Server& server, PsMode mode, const PsOptimizer& optimizer,
                                   ConfigureRequest* request) const {
  FillCaller(request);
  request->set_protocol(1);
  request->set_trainers(static_cast<uint32_t>(options.trainers));
  request->set_mode(mode == PsMode::kSync ? UPDATE_MODE_SYNC : UPDATE_MODE_A_SYNC);
  codec::FillOptimizer(optimizer, request->mutable_optimizer());
  for (size_t b : server.blocks) {
    const PsVariable& variable = variables[blocks[b].variable];
    SliceDef* def = request->add_slice();
    def->set_variable(variable.name);
    for (int64_t d : variable.shape.dims()) def->add_dims(d);
    def->set_offset(blocks[b].offset);
    def->set_numel(blocks[b].numel);
    def->set_dtype(F32);
    def->set_bucket(kRowBuckets + static_cast<uint32_t>(b));
  }
  request->set_step_timeout_ms(
      static_cast<uint64_t>(std::max<int64_t>(1, Millis(options.step_timeout))));
  // The enums have equal values.
  request->set_nonfinite(static_cast<NonfiniteGradients>(options.nonfinite));
  request->set_lost_after_ms(
      static_cast<uint64_t>(std::max<int64_t>(1, Millis(options.lost_after))));
  request->set_delay_compensation(static_cast<float>(options.delay_compensation));
  request->set_keeps_pushes(true);
  for (const auto& [name, value] : options.settings) {
    SettingDef* setting = request->add_setting();
    setting->set_name(name);
    setting->set_value(value);
  }
}

StatusOr<PsState> PsClient::Configure(const std::vector<PsVariable>& variables, PsMode mode,
                                      const PsOptimizer& optimizer,
                                      const std::vector<PsTable>& tables) {
  Impl& impl = *impl_;
  if (!impl.blocks.empty() || !impl.tables.empty())
    return FailedPrecondition("Configure was already called");
  TD_ASSIGN_OR_RETURN(std::vector<PsSlice> blocks, Partition(variables, impl.options.partition));
  for (const PsSlice& b : blocks) {
    if (b.numel <= kBlockElementsMax) continue;
    return InvalidArgument(
        "a slice of %s has %d elements, but a message can contain only %d; hint: use more "
        "pservers, and slice_var_up",
        variables[b.variable].name, b.numel, kBlockElementsMax);
  }
  std::vector<int64_t> push_widths;
  for (const PsTable& table : tables) {
    const StatusOr<TableRules> rules = ParseTableRules(table.rules);
    if (!rules.ok()) return Annotate(rules.status(), "table " + table.variable);
    push_widths.push_back(rules->counts() + table.dim);
  }
  impl.sync = mode == PsMode::kSync;
  impl.variables = variables;
  impl.tables = tables;
  impl.push_widths = std::move(push_widths);
  TD_RETURN_IF_ERROR(impl.MakeCache());
  impl.blocks = std::move(blocks);
  impl.blocks_of.resize(variables.size());
  for (size_t v = 0; v < variables.size(); ++v) {
    impl.variable_index[variables[v].name] = static_cast<int>(v);
    impl.variable_names.push_back(variables[v].name);
  }
  for (size_t b = 0; b < impl.blocks.size(); ++b) {
    impl.servers[impl.blocks[b].server]->blocks.push_back(b);
    impl.blocks_of[impl.blocks[b].variable].push_back(b);
  }
  impl.FillOwners();
  TD_RETURN_IF_ERROR(impl.ChooseIncarnation());
  std::vector<ConfigureReply> replies(impl.servers.size());
  for (size_t i = 0; i < impl.servers.size(); ++i) {
    ConfigureRequest request;
    impl.FillConfigure(*impl.servers[i], mode, optimizer, &request);
    impl.FillTables(i, &request);
    TD_RETURN_IF_ERROR(impl.CallAndWait(*impl.servers[i], "Configure", request, &replies[i],
                                        impl.options.start_timeout));
  }
  for (size_t i = 0; i < replies.size(); ++i) {
    impl.Learn(i, replies[i].map(), replies[i].generation());
    if (!replies[i].replayable() || impl.kept != nullptr) continue;
    impl.kept = std::make_unique<PushRetransmitBuffer>(replies[i].keep_bytes_max());
  }
  TD_RETURN_IF_ERROR(impl.CheckStates(replies, mode));
  impl.reports = impl.kept != nullptr || !impl.sync || impl.options.on_silent != nullptr;
  if (impl.sync) TD_RETURN_IF_ERROR(impl.RefreshAddedServers());
  TD_RETURN_IF_ERROR(impl.OpenLanes());
  PsState state{true, false, UINT64_MAX};
  for (size_t i = 0; i < replies.size(); ++i) {
    impl.initialised.push_back(replies[i].initialised());
    if (!impl.owns_any(*impl.servers[i])) continue;
    state.initialised &= replies[i].initialised();
    state.restored |= replies[i].restored();
    state.version = std::min<uint64_t>(state.version, replies[i].version());
  }
  if (state.version == UINT64_MAX) state.version = 0;
  return state;
}

// Clocks of hosts differ and may go back, so the number is not a time. Two processes that start
// together may call at the same time. Their numbers are drawn from a range and so differ, and
// servers keep the higher one.
Status PsClient::Impl::ChooseIncarnation() {
  if (options.incarnation != 0) return OkStatus();
  uint64_t newest = 0;
  for (const auto& server : servers) {
    StatusReply reply;
    TD_RETURN_IF_ERROR(
        CallAndWait(*server, "GetStatus", StatusRequest(), &reply, options.start_timeout));
    for (const TrainerStatus& t : reply.trainer()) {
      if (t.trainer_id() != static_cast<uint32_t>(options.trainer)) continue;
      newest = std::max<uint64_t>(newest, t.incarnation());
    }
  }
  if (newest >= UINT64_MAX - kIncarnationRange) {
    return FailedPrecondition(
        "trainer %d: the servers already use the highest incarnation %d [TD4024]; hint: start the "
        "pservers with empty directories, and resume from the checkpoint of the trainers",
        options.trainer, newest);
  }
  options.incarnation = newest + 1 + std::random_device()() % kIncarnationRange;
  return OkStatus();
}

Status PsClient::Impl::CheckStates(const std::vector<ConfigureReply>& replies, PsMode mode) {
  // Servers that restored a checkpoint; and one that did not.
  int lowest = -1, highest = -1, fresh = -1;
  for (int i = 0; i < static_cast<int>(replies.size()); ++i) {
    if (!owns_any(*servers[i])) continue;
    const uint64_t version = replies[i].version();
    if (!replies[i].restored()) {
      if (!replies[i].initialised()) fresh = i;
      continue;
    }
    if (lowest < 0 || version < replies[lowest].version()) lowest = i;
    if (highest < 0 || version > replies[highest].version()) highest = i;
  }
  if (lowest < 0) return OkStatus();
  // If servers have a WAL, some may have completed the step in which others are.
  if (mode == PsMode::kSync && replies[highest].version() > replies[lowest].version() + 1) {
    return FailedPrecondition(
        "%s restored step %d, but %s restored step %d [TD7012]; hint: restore checkpoints of one "
        "step",
        servers[highest]->name, replies[highest].version(), servers[lowest]->name,
        replies[lowest].version());
  }
  // Some servers may have stored the initial values and restarted before others had any.
  init_again = fresh >= 0;
  if (fresh >= 0 && replies[highest].version() != 0) {
    return FailedPrecondition(
        "%s restored a checkpoint of step %d, but %s has none [TD7012]; hint: start every server "
        "with its directory, or none",
        servers[highest]->name, replies[highest].version(), servers[fresh]->name);
  }
  return OkStatus();
}

Status PsClient::Impl::OpenLanes() {
  TD_ASSIGN_OR_RETURN(
      lanes, carrier->OpenLanes([this](int index) -> StatusOr<shm_rpc::ShmRpcTicket> {
        OpenLaneRequest request;
        OpenLaneReply reply;
        FillCaller(&request);
        TD_RETURN_IF_ERROR(CallAndWait(*servers[static_cast<size_t>(index)], "OpenLane", request,
                                       &reply, kInviteTimeout));
        return shm_rpc::ShmRpcTicket{reply.socket(), reply.ticket()};
      }));
  return OkStatus();
}

void PsClient::Impl::Close() {
  closing = true;
  std::deque<std::shared_ptr<OnePush>> none;
  {
    MutexLock lock(mu);
    none.swap(held);
  }
  for (const auto& push : none) push->done(Cancelled("the client is shutting down"));
  if (carrier != nullptr) carrier->Close();
  if (!leases->WaitForNone(SteadyNow() + std::chrono::seconds(5))) {
    LOG(WARNING) << "the memory of an unfinished push is still in use";
  }
}

std::shared_ptr<PsClient::Impl::SmallCall> PsClient::Impl::BeginCall(
    const Server& server, const char* method, const google::protobuf::MessageLite& request,
    std::shared_ptr<google::protobuf::MessageLite> reply, Time deadline) {
  auto call = std::make_shared<SmallCall>(SmallCall{carrier->MakeEvent(), OkStatus()});
  Send(server, method, rpc::EncodedProto(request), deadline,
       [call, reply, &server](const Status& status, codec::Fragments answer) {
         call->status =
             status.ok() ? Annotate(rpc::ParseMessage(answer, reply.get()), server.name) : status;
         call->ended->Set();
       });
  return call;
}

Status PsClient::Impl::CallAndTake(const Server& server, const char* method,
                                   const google::protobuf::MessageLite& request,
                                   std::shared_ptr<google::protobuf::MessageLite> reply,
                                   Duration timeout) {
  const auto call = BeginCall(server, method, request, reply, carrier->Now() + timeout + kGrace);
  if (call->ended->WaitUntil(carrier->Now() + timeout + 2 * kGrace)) return call->status;
  return DeadlineExceeded("%s did not reply to %s in time [TD4025]", server.name, method);
}

Status PsClient::Barrier(const std::string& name) {
  BarrierRequest request;
  BarrierReply reply;
  impl_->FillCaller(&request);
  request.set_name(name);
  {
    MutexLock lock(impl_->mu);
    request.set_generation(++impl_->barriers[name]);
  }
  request.set_timeout_ms(
      static_cast<uint64_t>(std::max<int64_t>(1, Millis(impl_->call_timeout()))));
  return impl_->CallAndWait(*impl_->servers[0], "Barrier", request, &reply, impl_->call_timeout());
}

Status PsClient::Complete() {
  CompleteRequest request;
  impl_->FillCaller(&request);
  Status first;
  for (Impl::Server* const server : impl_->AllServers()) {
    const auto reply = std::make_shared<CompleteReply>();
    const auto told = impl_->CallOwner(*server, "Complete", request, reply, impl_->call_timeout());
    if (first.ok()) first = told.status();
    // A server that has left may still run and display completed trainers.
    if (!told.ok() || *told) continue;
    (void)impl_->CallAndTake(*server, "Complete", request, reply, std::chrono::seconds(1));
  }
  return first;
}

StatusOr<uint64_t> PsClient::Save(bool delta) {
  uint64_t version = UINT64_MAX;
  SaveCheckpointRequest request;
  request.set_mode(delta ? SAVE_DELTA : SAVE_WHOLE);
  request.set_job(impl_->options.job);
  for (Impl::Server* const server : impl_->AllServers()) {
    if (!impl_->owns_any(*server)) continue;
    const auto reply = std::make_shared<SaveCheckpointReply>();
    TD_ASSIGN_OR_RETURN(const bool saved, impl_->CallOwner(*server, "SaveCheckpoint", request,
                                                           reply, impl_->options.start_timeout));
    if (saved) version = std::min<uint64_t>(version, reply->version());
  }
  return version;
}

StatusOr<uint64_t> PsClient::Restore() {
  uint64_t version = UINT64_MAX;
  RestoreCheckpointRequest request;
  request.set_job(impl_->options.job);
  for (Impl::Server* const server : impl_->AllServers()) {
    if (!impl_->owns_any(*server)) continue;
    const auto reply = std::make_shared<RestoreCheckpointReply>();
    TD_ASSIGN_OR_RETURN(const bool back, impl_->CallOwner(*server, "RestoreCheckpoint", request,
                                                          reply, impl_->options.start_timeout));
    if (!back) continue;
    if (impl_->cache) impl_->cache->Forget(static_cast<size_t>(server->index));
    version = std::min<uint64_t>(version, reply->version());
  }
  return version;
}

void PsClient::AskWaits(std::function<void(const StatusOr<std::vector<double>>&)> done) {
  const auto& servers = impl_->servers;
  const auto owner = std::find_if(servers.begin(), servers.end(),
                                  [this](const auto& s) { return impl_->owns_any(*s); });
  const Impl::Server& server = owner == servers.end() ? *servers[0] : **owner;
  impl_->Send(server, "GetStatus", rpc::EncodedProto(StatusRequest()),
              impl_->carrier->Now() + impl_->options.step_timeout,
              [done = std::move(done)](const Status& status, codec::Fragments answer) {
                StatusReply reply;
                const Status parsed = status.ok() ? rpc::ParseMessage(answer, &reply) : status;
                if (!parsed.ok()) return done(parsed);
                std::vector<double> waits;
                for (const TrainerStatus& t : reply.trainer()) waits.push_back(t.waited_seconds());
                done(waits);
              });
}

StatusOr<std::vector<PsServerInfo>> PsClient::ServerInfo() {
  std::vector<PsServerInfo> all;
  for (Impl::Server* const server : impl_->AllServers()) {
    const auto answer = std::make_shared<StatusReply>();
    TD_ASSIGN_OR_RETURN(const bool told, impl_->CallOwner(*server, "GetStatus", StatusRequest(),
                                                          answer, impl_->call_timeout()));
    if (!told) continue;
    const StatusReply& reply = *answer;
    PsServerInfo info{server->address,
                      reply.configured(),
                      reply.initialised(),
                      reply.version(),
                      reply.checkpoint_version(),
                      reply.server_incarnation(),
                      static_cast<size_t>(reply.slice_size()),
                      0,
                      0,
                      0};
    for (const SliceStatus& s : reply.slice()) info.elements += s.numel();
    for (const TableStatus& t : reply.table()) {
      info.rows += t.rows();
      info.row_bytes += t.bytes();
      info.waiting += t.waiting();
      info.dropped += t.dropped();
      info.removed += t.removed();
      info.extended += t.extended();
    }
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace tandem::ps
