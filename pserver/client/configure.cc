#include "pserver/client/configure.h"

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "common/base/require.h"
#include "common/codec/bucket_map_proto.h"
#include "common/codec/optimizer_def.h"
#include "common/codec/update_policy_proto.h"
#include "common/tables/row_buckets.h"
#include "proto/pserver.pb.h"

namespace tandem::ps {
namespace {

constexpr uint32_t kIncarnationRange = 1 << 24;

void FillSlices(const JobTables& tables, size_t server, ConfigureRequest* request) {
  for (const size_t s : tables.SlicesOn(server)) {
    const PsSlice& slice = tables.slices()[s];
    const PsVariable& variable = tables.variables()[static_cast<size_t>(slice.variable)];
    SliceDef* def = request->add_slice();
    def->set_variable(variable.name);
    for (const int64_t d : variable.shape.dims()) def->add_dims(d);
    def->set_offset(slice.offset);
    def->set_numel(slice.numel);
    def->set_dtype(F32);
    def->set_bucket(kRowBuckets + static_cast<uint32_t>(s));
  }
}

void FillTables(const JobTables& tables, int server, int servers, ConfigureRequest* request) {
  for (const PsTable& t : tables.tables()) {
    TableDef* def = request->add_table();
    def->set_variable(t.variable);
    def->add_dims(t.height);
    def->add_dims(t.dim);
    def->mutable_init()->set_kind(static_cast<InitDef::Kind>(t.init));
    def->mutable_init()->set_a(t.a);
    def->mutable_init()->set_b(t.b);
    def->set_seed(t.seed);
    def->set_rules(t.rules);
    def->set_bucket_begin(static_cast<uint32_t>(FirstBucket(server, servers)));
    def->set_bucket_end(static_cast<uint32_t>(FirstBucket(server + 1, servers)));
  }
}

void FillOptions(const PsOptions& options, ConfigureRequest* request) {
  request->set_protocol(1);
  request->set_trainers(static_cast<uint32_t>(options.trainers));
  request->set_step_timeout_ms(RequestFiller::TimeoutMs(options.patience.step_timeout));
  request->set_nonfinite(ToProto(options.rules.nonfinite));
  request->set_lost_after_ms(RequestFiller::TimeoutMs(options.rules.lost_after));
  request->set_delay_compensation(static_cast<float>(options.rules.delay_compensation));
  request->set_keeps_pushes(true);
  for (const auto& [name, value] : options.rules.settings) {
    SettingDef* setting = request->add_setting();
    setting->set_name(name);
    setting->set_value(value);
  }
}

}  // namespace

// The incarnation is no time, because the clocks of hosts differ and may be set back. Two processes
// of the same trainer may call this function at the same time. The random number makes their
// results different, and servers then accept only the higher result.
StatusOr<uint64_t> JobConfigurator::ChooseIncarnation() {
  uint64_t newest = 0;
  for (const auto& server : placement_.first_servers()) {
    StatusReply reply;
    TD_RETURN_IF_ERROR(caller_.CallAndWait(*server, rpc::PserverCall::kGetStatus, StatusRequest(),
                                           &reply, options_.patience.start_timeout));
    for (const TrainerStatus& t : reply.trainer()) {
      if (t.trainer_id() != static_cast<uint32_t>(options_.trainer)) continue;
      newest = std::max<uint64_t>(newest, t.incarnation());
    }
  }
  if (newest >= UINT64_MAX - kIncarnationRange) {
    return FailedPrecondition(
        "trainer %d: the servers already use the highest incarnation %d [TD4024]; hint: start the "
        "pservers with empty directories, and resume from the checkpoint of the trainers",
        options_.trainer, newest);
  }
  return newest + 1 + std::random_device()() % kIncarnationRange;
}

StatusOr<std::vector<ConfigureReply>> JobConfigurator::Configure(const PsOptimizer& optimizer) {
  const auto& servers = placement_.first_servers();
  std::vector<ConfigureReply> replies(servers.size());
  for (size_t i = 0; i < servers.size(); ++i) {
    ConfigureRequest request;
    requests_.FillCaller(&request);
    request.set_mode(ToProto(tables_.sync() ? PsMode::kSync : PsMode::kASync));
    codec::FillOptimizer(optimizer, request.mutable_optimizer());
    FillSlices(tables_, i, &request);
    FillOptions(options_, &request);
    request.set_each_step_once(options_.rules.each_step_once && !tables_.sync());
    FillTables(tables_, static_cast<int>(i), static_cast<int>(servers.size()), &request);
    TD_RETURN_IF_ERROR(caller_.CallAndWait(*servers[i], rpc::PserverCall::kConfigure, request,
                                           &replies[i], options_.patience.start_timeout));
  }
  return replies;
}

StatusOr<FoundValues> JobConfigurator::CheckValues(
    const std::vector<ConfigureReply>& replies) const {
  const auto& servers = placement_.first_servers();
  TD_REQUIRE(replies.size() == servers.size());
  FoundValues found;
  // `lowest`, `highest`: the replies with the lowest and the highest version among the servers that
  // restored a checkpoint. `fresh`: a server without values.
  const ConfigureReply *lowest = nullptr, *highest = nullptr;
  const PsServer *at_lowest = nullptr, *at_highest = nullptr, *fresh = nullptr;
  for (size_t i = 0; i < replies.size(); ++i) {
    const ConfigureReply& reply = replies[i];
    if (options_.rules.each_step_once && !reply.counts_steps()) {
      return FailedPrecondition(
          "%s is of a version that does not count the steps of a stream [TD6022]; hint: run the "
          "same version of Tandem on both sides",
          servers[i]->name);
    }
    found.initialised.push_back(reply.initialised());
    if (!placement_.OwnsAny(*servers[i])) continue;
    if (!reply.restored()) {
      if (!reply.initialised()) fresh = servers[i].get();
      continue;
    }
    if (lowest == nullptr || reply.version() < lowest->version()) {
      lowest = &reply;
      at_lowest = servers[i].get();
    }
    if (highest == nullptr || reply.version() > highest->version()) {
      highest = &reply;
      at_highest = servers[i].get();
    }
  }
  if (lowest == nullptr) return found;
  // Versions may differ by one: a server with a WAL may have completed a step that other servers
  // have not completed.
  if (tables_.sync() && highest->version() > lowest->version() + 1) {
    return FailedPrecondition(
        "%s restored step %d, but %s restored step %d [TD7012]; hint: restore checkpoints of one "
        "step",
        at_highest->name, highest->version(), at_lowest->name, lowest->version());
  }
  // A server may have stored the initial values and restarted before the other servers received
  // their values.
  found.init_again = fresh != nullptr;
  if (fresh != nullptr && highest->version() != 0) {
    return FailedPrecondition(
        "%s restored a checkpoint of step %d, but %s has no checkpoint [TD7012]; hint: start all "
        "servers with their directories, or all servers without a directory",
        at_highest->name, highest->version(), fresh->name);
  }
  return found;
}

PsState JobConfigurator::StateOf(const std::vector<ConfigureReply>& replies) const {
  const auto& servers = placement_.first_servers();
  TD_REQUIRE(replies.size() == servers.size());
  PsState state{true, false, UINT64_MAX};
  for (size_t i = 0; i < replies.size(); ++i) {
    if (!placement_.OwnsAny(*servers[i])) continue;
    state.initialised &= replies[i].initialised();
    state.restored |= replies[i].restored();
    state.version = std::min<uint64_t>(state.version, replies[i].version());
  }
  if (state.version == UINT64_MAX) state.version = 0;
  return state;
}

Status JobConfigurator::RefreshAddedServers() {
  std::set<int> called;
  for (bool more = true; more;) {
    more = false;
    for (const PsServer* const server : placement_.Servers()) {
      if (!placement_.IsAdded(*server) || !placement_.OwnsAny(*server)) continue;
      if (!called.insert(server->index).second) continue;
      more = true;
      ExchangeMapRequest request;
      requests_.FillCaller(&request);
      ToProto(placement_.Owners()->map, request.mutable_known());
      const auto reply = std::make_shared<ExchangeMapReply>();
      TD_ASSIGN_OR_RETURN(const bool owns,
                          caller_.CallOwner(*server, rpc::PserverCall::kExchangeMap, request, reply,
                                            options_.patience.start_timeout));
      if (owns) {
        placement_.Learn(static_cast<size_t>(server->index), reply->map(), reply->generation());
      }
    }
  }
  return OkStatus();
}

}  // namespace tandem::ps
