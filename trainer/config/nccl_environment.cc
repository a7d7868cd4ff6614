#include "trainer/config/nccl_environment.h"

#include "absl/strings/str_cat.h"
#include "proto/strategy.pb.h"

namespace tandem::trainer {

std::map<std::string, std::string> NcclEnvironment(const RuntimeFlags& flags) {
  std::map<std::string, std::string> variables;
  const auto text = [&variables](bool given, const char* name, const std::string& value) {
    if (given && !value.empty()) variables[name] = value;
  };
  const auto flag = [&variables](bool given, const char* name, bool value) {
    if (given) variables[name] = value ? "1" : "0";
  };
  text(flags.has_nccl_socket_ifname(), "NCCL_SOCKET_IFNAME", flags.nccl_socket_ifname());
  flag(flags.has_nccl_p2p_disable(), "NCCL_P2P_DISABLE", flags.nccl_p2p_disable());
  flag(flags.has_nccl_ib_disable(), "NCCL_IB_DISABLE", flags.nccl_ib_disable());
  // NCCL 2.4 replaced the variable NCCL_IB_CUDA_SUPPORT by NCCL_NET_GDR_LEVEL. The old values 1 and
  // 0 correspond to SYS (always) and LOC (never). Source: NCCL's documentation of the new variable.
  if (flags.has_nccl_ib_cuda_support()) {
    variables["NCCL_NET_GDR_LEVEL"] = flags.nccl_ib_cuda_support() ? "SYS" : "LOC";
  }
  text(flags.has_nccl_debug(), "NCCL_DEBUG", flags.nccl_debug());
  text(flags.has_nccl_launch_mode(), "NCCL_LAUNCH_MODE", flags.nccl_launch_mode());
  return variables;
}

std::string NcclVariables(const std::map<std::string, std::string>& environment) {
  std::string text;
  for (auto it = environment.lower_bound("NCCL_"); it != environment.end(); ++it) {
    if (!it->first.starts_with("NCCL_")) break;
    absl::StrAppend(&text, text.empty() ? "" : " ", it->first, "=", it->second);
  }
  return text;
}

}  // namespace tandem::trainer
