#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/base/check.h"

namespace tandem::rpc {
namespace {

constexpr size_t kBytesMax = 256;
constexpr Duration kPace = std::chrono::seconds(1);

void Write(gpr_log_func_args* line) {
  // Drops a line that gRPC logs as an error for every synchronously verified TLS connection.
  if (strstr(line->message, "cancel_check_peer") != nullptr) return;
  // This object is never destroyed, because gRPC may log until the process ends.
  static LogPace* const pace = std::make_unique<LogPace>().release();
  const char* slash = strrchr(line->file, '/');
  const char* file = slash == nullptr ? line->file : slash + 1;
  const auto left_out = pace->Admit(file, SteadyNow());
  if (!left_out) return;
  const google::LogSeverity severity =
      line->severity == GPR_LOG_SEVERITY_ERROR ? google::GLOG_ERROR : google::GLOG_INFO;
  google::LogMessage message(file, line->line, severity);
  message.stream() << "gRPC: " << OneLine(line->message);
  if (*left_out > 0)
    message.stream() << " (" << *left_out << " more lines of this file were suppressed)";
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line = absl::CHexEscape(std::string(text.substr(0, kBytesMax)));
  if (line.size() > kBytesMax) line.resize(kBytesMax);
  return line.size() < kBytesMax && text.size() <= kBytesMax ? line : line + "...";
}

std::optional<uint64_t> LogPace::Admit(const std::string& file, Time now) {
  MutexLock lock(mu_);
  const auto [it, first] = files_.try_emplace(file, Of{now, 0});
  if (!first && now - it->second.last < kPace) {
    ++it->second.left_out;
    return std::nullopt;
  }
  it->second.last = now;
  return std::exchange(it->second.left_out, 0);
}

void InstallGrpcLog() { gpr_set_log_function(&Write); }

}  // namespace tandem::rpc
