#include "pserver/client/client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/check.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/identity.h"
#include "common/rpc/tls_probe.h"
#include "common/rpc/token.h"
#include "pserver/client/client_impl.h"

namespace tandem {
namespace {

constexpr int64_t kBlockElementsMax = int64_t{1} << 28;  // 1 GiB in one message
// The server answers in time with a better message than "deadline exceeded"; then it may.
constexpr Duration kGrace = std::chrono::seconds(2);

uint64_t WallMicros() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace

std::shared_ptr<const void> PsLeases::Take(const std::shared_ptr<PsLeases>& leases) {
  {
    MutexLock lock(leases->mu_);
    ++leases->count_;
  }
  return std::shared_ptr<const void>(leases.get(), [leases](const void*) { leases->GiveBack(); });
}

void PsLeases::GiveBack() {
  MutexLock lock(mu_);
  if (--count_ == 0) none_.NotifyAll();
}

bool PsLeases::WaitForNone(Time deadline) {
  MutexLock lock(mu_);
  while (count_ != 0) {
    if (!none_.WaitUntil(mu_, deadline) && count_ != 0) return false;
  }
  return true;
}

PsClient::PsClient() : impl_(std::make_unique<Impl>()) {}
PsClient::~PsClient() { impl_->Close(); }
const std::vector<PsBlock>& PsClient::blocks() const { return impl_->blocks; }
int PsClient::lanes() const { return impl_->lanes; }
uint64_t PsClient::lane_calls() const { return impl_->lane_calls; }

StatusOr<std::unique_ptr<PsClient>> PsClient::Connect(const std::vector<std::string>& endpoints,
                                                      PsOptions options) {
  if (endpoints.empty()) return InvalidArgument("no pserver addresses were given");
  if (options.trainer < 0 || options.trainer >= options.trainers) {
    return InvalidArgument("trainer %d of %d: ranks are 0 to %d", options.trainer, options.trainers,
                           options.trainers - 1);
  }
  auto client = std::unique_ptr<PsClient>(new PsClient());
  Impl& impl = *client->impl_;
  if (options.incarnation == 0) options.incarnation = WallMicros();
  options.partition.servers = static_cast<int>(endpoints.size());
  impl.token = JobToken(options.secret, options.job);
  impl.options = std::move(options);
  TD_ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(impl.options.tls, impl.ServerUri()));
  for (const std::string& text : endpoints) {
    auto server = std::make_unique<Impl::Server>();
    server->index = static_cast<int>(impl.servers.size());
    TD_ASSIGN_OR_RETURN(server->endpoint, ParseEndpoint(text));
    server->name = absl::StrFormat("pserver %d (%s)", impl.servers.size(), text);
    server->channel = MakeChannel(server->endpoint, credentials);
    impl.servers.push_back(std::move(server));
  }
  impl.FillOwners();
  if (impl.options.wait_for_servers) TD_RETURN_IF_ERROR(impl.WaitForServers());
  return client;
}

std::string PsClient::Impl::ServerUri() const {
  return options.tls.enabled() ? ToUri({options.job, PeerRole::kPserver}) : "";
}

Status PsClient::Impl::WaitForServers() {
  const Time start = SteadyNow(), deadline = start + options.start_timeout;
  for (size_t i = 0; i < servers.size(); ++i) {
    Time next_message = SteadyNow() + std::chrono::milliseconds(500);
    while (true) {
      const Time now = SteadyNow();
      const Duration slice = std::max(std::min(next_message, deadline) - now, Duration::zero());
      if (servers[i]->channel->WaitForConnected(
              std::chrono::system_clock::now() +
              std::chrono::duration_cast<std::chrono::system_clock::duration>(slice))) {
        break;
      }
      const std::string where = absl::StrFormat("pserver %d of %d at %s", i + 1, servers.size(),
                                                ToString(servers[i]->endpoint));
      if (SteadyNow() >= deadline) {
        return Unavailable("%s did not answer for %.0f s: is it running, is the address right?",
                           where, Seconds(options.start_timeout));
      }
      // What will not be better in a minute is said now.
      const Status probe = ProbeConnection(servers[i]->endpoint, options.tls, ServerUri());
      if (!probe.ok() && probe.code() != StatusCode::kUnavailable) return Annotate(probe, where);
      next_message = SteadyNow() + std::chrono::seconds(1);
      if (options.on_wait) {
        options.on_wait(absl::StrFormat("waiting for %s (%.0f s of %.0f s)", where,
                                        Seconds(SteadyNow() - start),
                                        Seconds(options.start_timeout)));
      }
    }
  }
  return OkStatus();
}

void PsClient::Impl::FillConfigure(const Server& server, PsMode mode, const PsOptimizer& optimizer,
                                   ConfigureRequest* request) const {
  FillCaller(request);
  request->set_protocol(1);
  request->set_trainers(static_cast<uint32_t>(options.trainers));
  request->set_mode(mode == PsMode::kSync ? UPDATE_MODE_SYNC : UPDATE_MODE_A_SYNC);
  request->mutable_optimizer()->set_type(optimizer.type);
  for (const auto& [name, value] : optimizer.attrs) {
    OptimizerAttr* attr = request->mutable_optimizer()->add_attr();
    attr->set_name(name);
    if (const bool* b = std::get_if<bool>(&value)) attr->set_b(*b);
    if (const int64_t* i = std::get_if<int64_t>(&value)) attr->set_i(*i);
    if (const double* f = std::get_if<double>(&value)) attr->set_f(*f);
    if (const std::string* s = std::get_if<std::string>(&value)) attr->set_s(*s);
  }
  for (size_t b : server.blocks) {
    const PsVariable& variable = variables[blocks[b].variable];
    SliceDef* def = request->add_slice();
    def->set_variable(variable.name);
    for (int64_t d : variable.shape.dims()) def->add_dims(d);
    def->set_offset(blocks[b].offset);
    def->set_numel(blocks[b].numel);
    def->set_dtype(F32);
  }
  request->set_step_timeout_ms(
      static_cast<uint64_t>(std::max<int64_t>(1, Millis(options.step_timeout))));
}

StatusOr<PsState> PsClient::Configure(const std::vector<PsVariable>& variables, PsMode mode,
                                      const PsOptimizer& optimizer,
                                      const std::vector<PsTable>& tables) {
  Impl& impl = *impl_;
  if (!impl.blocks.empty() || !impl.tables.empty())
    return FailedPrecondition("Configure was called before");
  TD_ASSIGN_OR_RETURN(std::vector<PsBlock> blocks, Partition(variables, impl.options.partition));
  for (const PsBlock& b : blocks) {
    if (b.numel <= kBlockElementsMax) continue;
    return InvalidArgument(
        "%s: a slice of %d elements is more than one message holds (%d); use "
        "more pservers and slice_var_up",
        variables[b.variable].name, b.numel, kBlockElementsMax);
  }
  impl.sync = mode == PsMode::kSync;
  impl.variables = variables;
  impl.tables = tables;
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
  std::vector<ConfigureReply> replies(impl.servers.size());
  for (size_t i = 0; i < impl.servers.size(); ++i) {
    ConfigureRequest request;
    impl.FillConfigure(*impl.servers[i], mode, optimizer, &request);
    impl.FillTables(i, &request);
    TD_RETURN_IF_ERROR(impl.CallAndWait(*impl.servers[i], "Configure", request, &replies[i],
                                        impl.options.start_timeout));
  }
  TD_RETURN_IF_ERROR(impl.CheckStates(replies, mode));
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

Status PsClient::Impl::CheckStates(const std::vector<ConfigureReply>& replies, PsMode mode) const {
  int restored = -1, fresh = -1;
  for (int i = 0; i < static_cast<int>(replies.size()); ++i) {
    if (!owns_any(*servers[i])) continue;
    if (!replies[i].restored()) {
      if (!replies[i].initialised()) fresh = i;
    } else if (restored >= 0 && mode == PsMode::kSync &&
               replies[i].version() != replies[restored].version()) {
      return FailedPrecondition(
          "%s is at step %d of its checkpoint, %s at step %d: restore "
          "checkpoints of one step",
          servers[restored]->name, replies[restored].version(), servers[i]->name,
          replies[i].version());
    } else {
      restored = i;
    }
  }
  if (restored >= 0 && fresh >= 0) {
    return FailedPrecondition(
        "%s restored a checkpoint of step %d, %s has none: give every server "
        "its data folder, or none",
        servers[restored]->name, replies[restored].version(), servers[fresh]->name);
  }
  return OkStatus();
}

PsClient::Impl::Reply PsClient::Impl::Observed(const Server& server, const char* method,
                                               size_t bytes, Reply reply) const {
  PsCall call{
      .server = server.index, .method = method, .begin = SteadyNow(), .end = {}, .sent = bytes};
  return [this, call, reply = std::move(reply)](Status status,
                                                const grpc::ByteBuffer& answer) mutable {
    call.end = SteadyNow();
    call.received = answer.Length();
    call.ok = status.ok();
    options.on_call(call);
    reply(std::move(status), answer);
  };
}

void PsClient::Impl::Call(Server& server, const char* method, grpc::ByteBuffer request,
                          Time deadline, Reply reply) {
  uint64_t id = 0;
  {
    MutexLock lock(mu);
    if (!closing) {
      id = next_call++;
      calls[id] = nullptr;
    }
  }
  if (id == 0) {
    reply(Cancelled("the client is going away"), grpc::ByteBuffer());
    return;
  }
  if (options.on_call) reply = Observed(server, method, request.Length(), std::move(reply));
  auto call = RawCall::Start(
      PsLeases::Take(call_leases), server.channel, std::string("/tandem.ParameterServer/") + method,
      token, std::move(request), deadline, options.retries,
      [this, id, &server, reply = std::move(reply)](Status status, const grpc::ByteBuffer& bytes) {
        reply(Annotate(status, server.name), bytes);
        EndCall(id);
      });
  MutexLock lock(mu);
  const auto it = calls.find(id);
  if (it == calls.end()) return;  // done already
  it->second = call;
  if (closing) call->Cancel();
}

void PsClient::Impl::EndCall(uint64_t id) {
  MutexLock lock(mu);
  calls.erase(id);
  if (calls.empty()) idle.NotifyAll();
}

void PsClient::Impl::Close() {
  {
    MutexLock lock(mu);
    closing = true;
    std::vector<std::shared_ptr<RawCall>> running;
    for (auto& [id, call] : calls) {
      if (call != nullptr) running.push_back(call);
    }
    for (auto& call : running) call->Cancel();
  }
  for (auto& server : servers) {
    if (server->lane != nullptr) server->lane->Stop();
  }
  {
    MutexLock lock(mu);
    const Time deadline = SteadyNow() + std::chrono::seconds(60);
    while (!calls.empty()) {
      CHECK(idle.WaitUntil(mu, deadline) || calls.empty()) << "cancelled calls do not end";
    }
  }
  CHECK(call_leases->WaitForNone(SteadyNow() + std::chrono::seconds(60)))
      << "ended calls do not go away";
  for (auto& server : servers) server->channel.reset();
  if (!leases->WaitForNone(SteadyNow() + std::chrono::seconds(5))) {
    LOG(WARNING) << "gRPC still holds memory of an unfinished push";
  }
}

Status PsClient::Impl::CallAndWait(Server& server, const char* method,
                                   const google::protobuf::MessageLite& request,
                                   google::protobuf::MessageLite* reply, Duration timeout) {
  struct Waiting {
    Mutex mu;
    CondVar cv;
    bool done TD_GUARDED_BY(mu) = false;
    Status status TD_GUARDED_BY(mu);
    grpc::ByteBuffer bytes TD_GUARDED_BY(mu);
  };
  auto waiting = std::make_shared<Waiting>();
  Call(server, method, SerializeMessage(request), SteadyNow() + timeout + kGrace,
       [waiting](Status status, const grpc::ByteBuffer& bytes) {
         MutexLock lock(waiting->mu);
         waiting->status = std::move(status);
         waiting->bytes = bytes;
         waiting->done = true;
         waiting->cv.NotifyAll();
       });
  MutexLock lock(waiting->mu);
  const Time deadline = SteadyNow() + timeout + 2 * kGrace;
  while (!waiting->done) {
    if (!waiting->cv.WaitUntil(waiting->mu, deadline) && !waiting->done) {
      return DeadlineExceeded("%s: %s did not end in time", server.name, method);
    }
  }
  TD_RETURN_IF_ERROR(waiting->status);
  return Annotate(ParseMessage(waiting->bytes, reply), server.name);
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
  request.set_timeout_ms(static_cast<uint64_t>(Millis(impl_->options.step_timeout)));
  return impl_->CallAndWait(*impl_->servers[0], "Barrier", request, &reply,
                            impl_->options.step_timeout);
}

Status PsClient::Complete() {
  CompleteRequest request;
  impl_->FillCaller(&request);
  Status first;
  for (auto& server : impl_->servers) {
    CompleteReply reply;
    const Status status =
        impl_->CallAndWait(*server, "Complete", request, &reply, impl_->options.step_timeout);
    if (first.ok()) first = status;
  }
  return first;
}

StatusOr<uint64_t> PsClient::Save() {
  uint64_t version = UINT64_MAX;
  SaveCheckpointRequest request;
  request.set_job(impl_->options.job);
  for (auto& server : impl_->servers) {
    if (!impl_->owns_any(*server)) continue;
    SaveCheckpointReply reply;
    TD_RETURN_IF_ERROR(impl_->CallAndWait(*server, "SaveCheckpoint", request, &reply,
                                          impl_->options.start_timeout));
    version = std::min<uint64_t>(version, reply.version());
  }
  return version;
}

StatusOr<uint64_t> PsClient::Restore() {
  uint64_t version = UINT64_MAX;
  RestoreCheckpointRequest request;
  request.set_job(impl_->options.job);
  for (auto& server : impl_->servers) {
    if (!impl_->owns_any(*server)) continue;
    RestoreCheckpointReply reply;
    TD_RETURN_IF_ERROR(impl_->CallAndWait(*server, "RestoreCheckpoint", request, &reply,
                                          impl_->options.start_timeout));
    version = std::min<uint64_t>(version, reply.version());
  }
  return version;
}

StatusOr<std::vector<PsServerInfo>> PsClient::ServerInfo() {
  std::vector<PsServerInfo> all;
  for (auto& server : impl_->servers) {
    StatusReply reply;
    TD_RETURN_IF_ERROR(impl_->CallAndWait(*server, "GetStatus", StatusRequest(), &reply,
                                          impl_->options.step_timeout));
    PsServerInfo info{ToString(server->endpoint),
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
    }
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace tandem
