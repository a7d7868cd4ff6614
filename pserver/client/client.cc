#include "pserver/client/client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/require.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/client/calls.h"
#include "pserver/client/carrier/grpc_ps_channel.h"
#include "pserver/client/configure.h"
#include "pserver/client/init.h"
#include "pserver/client/job/job_tables.h"
#include "pserver/client/placement.h"
#include "pserver/client/pull.h"
#include "pserver/client/pull_rows.h"
#include "pserver/client/push.h"
#include "pserver/client/push_admission.h"
#include "pserver/client/push_resplit.h"
#include "pserver/client/pushes/resender.h"
#include "pserver/client/row_cache.h"
#include "pserver/client/silence_watch.h"
#include "pserver/client/state_pull.h"
#include "pserver/client/table_pull.h"
#include "pserver/client/wait_reporter.h"

namespace tandem::ps {
namespace {

using rpc::PserverCall;

constexpr Duration kInviteTimeout = std::chrono::seconds(3);
// Time limit of a call to a server that has left the job.
constexpr Duration kLeftTimeout = std::chrono::seconds(1);

template <typename T>
void Append(const std::vector<T>& more, std::vector<T>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

PsServerInfo InfoOf(const PsServer& server, const StatusReply& reply) {
  PsServerInfo info{.endpoint = server.address,
                    .configured = reply.configured(),
                    .initialised = reply.initialised(),
                    .version = reply.version(),
                    .checkpoint_version = reply.checkpoint_version(),
                    .incarnation = reply.server_incarnation(),
                    .slices = static_cast<size_t>(reply.slice_size())};
  for (const SliceStatus& s : reply.slice()) info.elements += s.numel();
  for (const TableStatus& t : reply.table()) {
    info.rows += t.rows();
    info.row_bytes += t.bytes();
    info.waiting += t.waiting();
    info.dropped += t.dropped();
    info.removed += t.removed();
    info.extended += t.extended();
  }
  return info;
}

}  // namespace

// The parts of a client. Each part has its own lock. All callbacks have run before the parts are
// destroyed, because the destructor of PsClient closes the channel first.
struct PsClient::Impl {
  Impl(PsOptions o, std::unique_ptr<PsChannel> c, std::vector<std::string> a, JobTables t,
       std::unique_ptr<RowCache> r)
      : options(std::move(o)),
        channel(std::move(c)),
        addresses(std::move(a)),
        tables(std::move(t)),
        cache(std::move(r)) {}

  PsOptions options;  // constant after Configure, which sets the incarnation if it was 0
  std::unique_ptr<PsChannel> channel;
  const std::vector<std::string> addresses;
  const JobTables tables;
  const std::unique_ptr<RowCache> cache;  // null: rows are not cached

  RequestFiller requests{options};
  Resender resender{*channel, options};
  SilenceWatch silence{options.patience.step_timeout, options.callbacks.on_silent};
  Placement placement{{*channel, requests, resender, silence, cache.get()}, addresses, tables};
  WaitReporter reporter{*channel, placement, silence, tables.sync()};
  Caller caller{*channel, options, placement, resender, reporter};
  PushAdmission admission{caller, options, placement, resender, reporter};
  Puller puller{caller, options, placement, requests, tables};
  PushResplitter resplitter{caller, options, placement, tables, puller, pusher};
  Pusher pusher{{caller, options, placement, tables, resender, admission, puller, resplitter}};
  RowPuller row_puller{{caller, options, placement, requests, tables, cache.get()}};
  TablePuller table_puller{caller, options, placement, requests, tables};
  StatePuller state_puller{caller, options, placement, tables};
  ParamInitializer initializer{caller, options, placement, requests, tables};

  FoundValues found;  // the servers that have values; set by Configure
  // Lowest number of the trainer's steps on servers with parameters; set by Configure.
  uint64_t first_step = UINT64_MAX;
  int shm_servers = 0;  // number of servers to which Configure opened shm RPC connections
  Mutex mu;
  // By barrier name: number of the newest use of the barrier by this trainer.
  std::map<std::string, uint64_t> barriers TD_GUARDED_BY(mu);
};

PsClient::PsClient() = default;

PsClient::~PsClient() {
  impl_->caller.BeginClose();
  impl_->admission.Close();
  impl_->caller.Close();
}

StatusOr<std::unique_ptr<PsClient>> PsClient::Connect(const std::vector<std::string>& endpoints,
                                                      PsOptions options) {
  if (endpoints.empty())
    return InvalidArgument(
        "the client has no pserver addresses [TD3003]; hint: set --pservers=HOST:PORT,...");
  if (options.trainer < 0 || options.trainer >= options.trainers) {
    return InvalidArgument("trainer %d is out of range, expected 0 to %d", options.trainer,
                           options.trainers - 1);
  }
  TD_ASSIGN_OR_RETURN(auto channel, GrpcPsChannel::Connect(endpoints, options));
  return Over(std::move(channel), endpoints, std::move(options));
}

std::unique_ptr<PsClient> PsClient::Over(std::unique_ptr<PsChannel> channel,
                                         const std::vector<std::string>& addresses,
                                         PsOptions options) {
  TD_REQUIRE(channel != nullptr);
  auto client = std::unique_ptr<PsClient>(new PsClient());
  options.partition.servers = static_cast<int>(addresses.size());
  client->impl_ = std::make_unique<Impl>(std::move(options), std::move(channel), addresses,
                                         JobTables(), nullptr);
  return client;
}

StatusOr<PsState> PsClient::Configure(const std::vector<PsVariable>& variables, PsMode mode,
                                      const PsOptimizer& optimizer,
                                      const std::vector<PsTable>& tables) {
  if (!impl_->tables.empty())
    return FailedPrecondition("Configure was called twice, expected one call");
  TD_ASSIGN_OR_RETURN(JobTables made,
                      JobTables::Make(variables, mode, tables, impl_->options.partition));
  const RowCache::Options cache_options{impl_->options.row_cache.bytes,
                                        impl_->options.row_cache.versions};
  TD_ASSIGN_OR_RETURN(auto cache, RowCache::Make(cache_options, tables));
  // No call is in progress, so the parts of a client without tables can be replaced by parts with
  // tables.
  impl_ = std::make_unique<Impl>(std::move(impl_->options), std::move(impl_->channel),
                                 impl_->addresses, std::move(made), std::move(cache));
  Impl& impl = *impl_;
  JobConfigurator configurator(impl.caller, impl.options, impl.placement, impl.requests,
                               impl.tables);
  if (impl.options.incarnation == 0) {
    TD_ASSIGN_OR_RETURN(impl.options.incarnation, configurator.ChooseIncarnation());
  }
  TD_ASSIGN_OR_RETURN(const std::vector<ConfigureReply> replies, configurator.Configure(optimizer));
  for (size_t i = 0; i < replies.size(); ++i) {
    impl.placement.Learn(i, replies[i].map(), replies[i].generation());
    if (!replies[i].replayable() || impl.resender.enabled()) continue;
    impl.resender.Enable(replies[i].keep_bytes_max());
  }
  // Rows that move later come from these servers, and moves never lower the number of a server.
  for (size_t i = 0; i < replies.size(); ++i) {
    if (!impl.placement.OwnsAny(impl.placement.ServerAt(i))) continue;
    impl.first_step = std::min<uint64_t>(impl.first_step, replies[i].steps());
  }
  TD_ASSIGN_OR_RETURN(impl.found, configurator.CheckValues(replies));
  const bool sync = impl.tables.sync();
  if (impl.resender.enabled() || !sync || impl.options.callbacks.on_silent) impl.reporter.Enable();
  if (sync) TD_RETURN_IF_ERROR(configurator.RefreshAddedServers());
  TD_ASSIGN_OR_RETURN(
      impl.shm_servers,
      impl.channel->OpenShmChannels([&impl](int index) -> StatusOr<shm_rpc::ShmRpcTicket> {
        OpenLaneRequest request;
        OpenLaneReply reply;
        impl.requests.FillCaller(&request);
        TD_RETURN_IF_ERROR(
            impl.caller.CallAndWait(impl.placement.ServerAt(static_cast<size_t>(index)),
                                    PserverCall::kOpenShmChannel, request, &reply, kInviteTimeout));
        return shm_rpc::ShmRpcTicket{reply.socket(), reply.ticket()};
      }));
  return configurator.StateOf(replies);
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
  if (impl.options.trainer == 0) {
    TD_RETURN_IF_ERROR(impl.initializer.Send(impl.found, params, version, slots, rows));
  }
  TD_ASSIGN_OR_RETURN(const uint64_t lowest, impl.initializer.Wait());
  if (params.empty()) return lowest;  // there are only tables, and no variables to pull
  struct Waiting {
    std::unique_ptr<PsEvent> ended;
    StatusOr<uint64_t> version;
  };
  const auto waiting = std::make_shared<Waiting>(Waiting{impl.caller.MakeEvent(), 0});
  // In sync mode, pulls exactly the lowest version: if this trainer replaces a killed trainer,
  // servers may be one step apart. In a_sync mode, accepts any version: a restarted server may have
  // a lower version than the server reported before (wal_sync interval).
  const bool sync = impl.tables.sync();
  Pull({.version = sync ? lowest : 0, .exactly = sync}, {params.begin(), params.end()},
       [waiting](StatusOr<uint64_t> pulled) {
         waiting->version = std::move(pulled);
         waiting->ended->Set();
       });
  const Time deadline = impl.caller.Now() + impl.options.patience.call_timeout() + 2 * kGrace;
  TD_ASSIGN_OR_RETURN(const bool ended, impl.caller.Await(*waiting->ended, deadline));
  if (!ended) {
    return DeadlineExceeded("a pull of the initial parameters did not end in time [TD4025]");
  }
  return waiting->version;
}

// ---- Gradients and parameters -------------------------------------------------------------------

void PsClient::Push(uint64_t step, float learning_rate, const std::vector<PsConstTensor>& gradients,
                    Done done, const std::vector<PsConstRows>& rows, int64_t event_time_ms) {
  impl_->pusher.Push(
      {step, learning_rate, event_time_ms, gradients, rows}, {}, nullptr,
      [done = std::move(done)](const StatusOr<uint64_t>& version) { done(version.status()); });
}

void PsClient::Pull(PullCondition when, const std::vector<PsTensor>& params, DoneVersion done) {
  impl_->puller.Pull(when, params, std::move(done));
}

void PsClient::PushPull(uint64_t step, float learning_rate,
                        const std::vector<PsConstTensor>& gradients, PullCondition when,
                        const std::vector<PsTensor>& params, DoneVersion done,
                        const std::vector<PsConstRows>& rows, int64_t event_time_ms) {
  impl_->pusher.Push({step, learning_rate, event_time_ms, gradients, rows}, when, &params,
                     std::move(done));
}

void PsClient::PullRows(PullCondition when, std::vector<PsRows> rows, DoneVersion done) {
  impl_->row_puller.Pull(when, std::move(rows), std::move(done));
}

Status PsClient::PullTable(const std::string& variable, uint64_t min_version, const RowSink& take) {
  TD_ASSIGN_OR_RETURN(const size_t table, impl_->tables.FindTable(variable));
  return impl_->table_puller.Pull(impl_->tables.tables()[table], true, min_version, take);
}

StatusOr<PsTableRows> PsClient::PullTable(const std::string& variable, bool slots,
                                          uint64_t min_version) {
  TD_ASSIGN_OR_RETURN(const size_t table, impl_->tables.FindTable(variable));
  PsTableRows all{.variable = variable};
  const auto add = [&all](const PsTableRows& page) {
    all.slots = page.slots;
    all.slot_start = page.slot_start;
    Append(page.ids, all.ids);
    Append(page.content, all.content);
    Append(page.use, all.use);
    Append(page.waiting, all.waiting);
    return OkStatus();
  };
  TD_RETURN_IF_ERROR(
      impl_->table_puller.Pull(impl_->tables.tables()[table], slots, min_version, add));
  return all;
}

StatusOr<std::vector<PsSlot>> PsClient::PullState() { return impl_->state_puller.Pull(); }

// ---- Small calls --------------------------------------------------------------------------------

Status PsClient::Barrier(const std::string& name) {
  BarrierRequest request;
  BarrierReply reply;
  impl_->requests.FillCaller(&request);
  request.set_name(name);
  {
    MutexLock lock(impl_->mu);
    request.set_generation(++impl_->barriers[name]);
  }
  const Duration timeout = impl_->options.patience.call_timeout();
  request.set_timeout_ms(RequestFiller::TimeoutMs(timeout));
  return impl_->caller.CallAndWait(impl_->placement.ServerAt(0), PserverCall::kBarrier, request,
                                   &reply, timeout);
}

Status PsClient::Complete() {
  CompleteRequest request;
  impl_->requests.FillCaller(&request);
  for (const uint64_t number : impl_->pusher.Ended()) request.add_ended(number);
  Status first;
  for (const PsServer* const server : impl_->placement.Servers()) {
    const auto reply = std::make_shared<CompleteReply>();
    const auto told = impl_->caller.CallOwner(*server, PserverCall::kComplete, request, reply,
                                              impl_->options.patience.call_timeout());
    if (first.ok()) first = told.status();
    // Also calls a server that has left the job, because this server may still run and display
    // which trainers completed.
    if (!told.ok() || *told) continue;
    impl_->caller.CallAndTake(*server, PserverCall::kComplete, request, reply, kLeftTimeout)
        .IgnoreError();
  }
  return first;
}

StatusOr<uint64_t> PsClient::Save(bool delta) {
  uint64_t version = UINT64_MAX;
  SaveCheckpointRequest request;
  request.set_mode(delta ? SAVE_DELTA : SAVE_WHOLE);
  request.set_job(impl_->options.job);
  for (const PsServer* const server : impl_->placement.Servers()) {
    if (!impl_->placement.OwnsAny(*server)) continue;
    const auto reply = std::make_shared<SaveCheckpointReply>();
    TD_ASSIGN_OR_RETURN(const bool saved,
                        impl_->caller.CallOwner(*server, PserverCall::kSaveCheckpoint, request,
                                                reply, impl_->options.patience.start_timeout));
    if (saved) version = std::min<uint64_t>(version, reply->version());
  }
  return version;
}

StatusOr<uint64_t> PsClient::Restore() {
  uint64_t version = UINT64_MAX;
  RestoreCheckpointRequest request;
  request.set_job(impl_->options.job);
  for (const PsServer* const server : impl_->placement.Servers()) {
    if (!impl_->placement.OwnsAny(*server)) continue;
    const auto reply = std::make_shared<RestoreCheckpointReply>();
    TD_ASSIGN_OR_RETURN(const bool back,
                        impl_->caller.CallOwner(*server, PserverCall::kRestoreCheckpoint, request,
                                                reply, impl_->options.patience.start_timeout));
    if (!back) continue;
    if (impl_->cache) impl_->cache->Forget(static_cast<size_t>(server->index));
    version = std::min<uint64_t>(version, reply->version());
  }
  return version;
}

StatusOr<std::vector<PsServerInfo>> PsClient::ServerInfo() {
  std::vector<PsServerInfo> all;
  for (const PsServer* const server : impl_->placement.Servers()) {
    const auto reply = std::make_shared<StatusReply>();
    TD_ASSIGN_OR_RETURN(const bool told,
                        impl_->caller.CallOwner(*server, PserverCall::kGetStatus, StatusRequest(),
                                                reply, impl_->options.patience.call_timeout()));
    if (!told) continue;
    all.push_back(InfoOf(*server, *reply));
    all.back().owns_parameters = impl_->placement.OwnsAny(*server);
    for (const TrainerStatus& t : reply->trainer()) {
      const bool mine = t.trainer_id() == static_cast<uint32_t>(impl_->options.trainer);
      if (!mine) continue;
      all.back().steps = t.steps();
      all.back().pushed_steps = t.pushes() == 0 ? 0 : t.last_step() + 1;
    }
    // Configure does not call servers that joined the running job. They have no standbys, so their
    // reply is not of a replaced primary.
    const uint64_t added = all.back().owns_parameters ? all.back().steps : UINT64_MAX;
    all.back().steps_before = impl_->placement.IsAdded(*server) ? added : impl_->first_step;
  }
  return all;
}

uint64_t StepsPushed(const std::vector<PsServerInfo>& servers) {
  uint64_t steps = UINT64_MAX;
  for (const PsServerInfo& server : servers) {
    if (server.owns_parameters) steps = std::min(steps, server.steps);
  }
  return steps == UINT64_MAX ? 0 : steps;
}

uint64_t FirstStep(const std::vector<PsServerInfo>& servers) {
  uint64_t steps = UINT64_MAX;
  for (const PsServerInfo& server : servers) steps = std::min(steps, server.steps_before);
  return steps == UINT64_MAX ? 0 : steps;
}

void PsClient::AskWaits(std::function<void(const StatusOr<std::vector<double>>&)> done) {
  const auto& servers = impl_->placement.first_servers();
  const auto owner = std::find_if(servers.begin(), servers.end(), [this](const auto& server) {
    return impl_->placement.OwnsAny(*server);
  });
  const PsServer& server = owner == servers.end() ? *servers[0] : **owner;
  impl_->caller.Send(server, PserverCall::kGetStatus, rpc::EncodedProto(StatusRequest()),
                     impl_->caller.Now() + impl_->options.patience.step_timeout,
                     [done = std::move(done)](const Status& status, codec::Fragments answer) {
                       StatusReply reply;
                       const Status parsed =
                           status.ok() ? rpc::ParseMessage(answer, &reply) : status;
                       if (!parsed.ok()) return done(parsed);
                       std::vector<double> waits;
                       for (const TrainerStatus& t : reply.trainer()) {
                         waits.push_back(t.waited_seconds());
                       }
                       done(waits);
                     });
}

const std::vector<PsSlice>& PsClient::blocks() const { return impl_->tables.slices(); }
size_t PsClient::kept_bytes() const { return impl_->resender.bytes(); }
int PsClient::shm_servers() const { return impl_->shm_servers; }
uint64_t PsClient::shm_calls() const { return impl_->channel->shm_calls(); }
PsCacheCounts PsClient::row_cache() const {
  if (impl_->cache == nullptr) return {};
  const RowCache::Counts counts = impl_->cache->counts();
  return {counts.hits, counts.misses};
}

}  // namespace tandem::ps
