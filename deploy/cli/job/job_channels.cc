#include "deploy/cli/job/job_channels.h"

#include <utility>

#include "proto/pserver.pb.h"
#include "pserver/client/carrier/grpc_ps_channel.h"

namespace tandem::deploy {

JobChannels::JobChannels(std::unique_ptr<ps::PsChannel> c, std::vector<std::string> a)
    : carrier(std::move(c)), addresses(std::move(a)) {}

JobChannels::~JobChannels() {
  if (carrier != nullptr) carrier->Close();
}

StatusOr<JobChannels> ConnectPservers(const JobAccess& access) {
  ps::PsOptions options;
  options.job = access.job;
  options.security.secret = access.secret;
  options.security.tls = access.tls;
  options.security.insecure_allow_network = access.insecure_allow_network;
  options.patience.start_timeout = access.timeout;
  options.transport = ps::PsTransport::kGrpc;
  options.patience.wait_for_servers = access.drained.empty();
  std::vector<std::string> addresses;
  for (const Endpoint& e : access.pservers) addresses.push_back(ToString(e));
  for (size_t i = 0; i < addresses.size() && !options.patience.wait_for_servers; ++i) {
    StatusReply reply;
    const Status answer = ServerAccess(access, i).GetStatus(&reply);
    if (!IsGone(access, i, answer)) TD_RETURN_IF_ERROR(answer);
  }
  TD_ASSIGN_OR_RETURN(auto carrier, ps::GrpcPsChannel::Connect(addresses, options));
  return JobChannels(std::move(carrier), std::move(addresses));
}

}  // namespace tandem::deploy
