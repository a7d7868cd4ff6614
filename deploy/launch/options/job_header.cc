#include "deploy/launch/options/job_header.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/require.h"
#include "common/strategy/diagnostics.h"
#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "proto/job.pb.h"

namespace tandem::deploy {
namespace {

constexpr size_t kJobNameBytesMax = 64;

bool IsJobName(const std::string& name) {
  constexpr char kAllowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= kJobNameBytesMax && name[0] != '.' &&
         name.find_first_not_of(kAllowed) == std::string::npos;
}

// Reads the job file, and sets the fields that the environment and the trainer arguments set.
// Ignores errors in the arguments, because the trainer reports them.
StatusOr<JobConfig> ReadJob(const std::string& path, const std::vector<std::string>& args,
                            const std::map<std::string, std::string>& environment) {
  JobConfig job;
  strategy::Origins origins;
  strategy::Diagnostics diagnostics;
  TD_RETURN_IF_ERROR(strategy::LoadTextProto(path, &job, &origins, &diagnostics));
  strategy::ApplyEnvironment(&job, environment, &origins, &diagnostics);
  for (const std::string& arg : args) {
    const size_t name = arg.find_first_not_of('-'), equals = arg.find('=');
    if (name == std::string::npos || equals == std::string::npos || equals < name) continue;
    const std::string field = arg.substr(name, equals - name);
    (void)strategy::ApplyOverride(&job, field, arg.substr(equals + 1), strategy::FlagOrigin(field),
                                  &origins);
  }
  return job;
}

}  // namespace

const char* ModeName(LaunchMode mode) {
  switch (mode) {
    case LaunchMode::kLocal:
      return "local";
    case LaunchMode::kPserver:
      return "pserver";
    case LaunchMode::kCollective:
      return "collective";
    case LaunchMode::kHybrid:
      return "hybrid";
  }
  return "";
}

StatusOr<JobHeader> ReadJobHeader(const std::string& path) {
  JobConfig job;
  strategy::Diagnostics diagnostics;
  TD_RETURN_IF_ERROR(strategy::LoadTextProto(path, &job, nullptr, &diagnostics));
  JobHeader header;
  header.name = job.name();
  // The job's name becomes the name of a directory, so it must not contain a path.
  if (!IsJobName(header.name)) {
    return InvalidArgument(
        "%s: the job name is \"%s\", expected 1 to %d letters, digits, '.', '_' or '-' [TD1011]",
        path, header.name, kJobNameBytesMax);
  }
  switch (job.mode()) {
    case LOCAL:
      header.mode = LaunchMode::kLocal;
      break;
    case PSERVER:
      header.mode = LaunchMode::kPserver;
      break;
    case COLLECTIVE:
      header.mode = LaunchMode::kCollective;
      break;
    case HYBRID:
      header.mode = LaunchMode::kHybrid;
      break;
  }
  return header;
}

bool IsScript(const std::string& path) { return path.ends_with(".py"); }

StatusOr<JobHeader> ReadScriptHeader(const std::string& path) {
  TD_REQUIRE(IsScript(path));
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return NotFound("cannot open %s: no such file [TD1008]", path);
  }
  JobHeader header;
  header.name = std::filesystem::path(path).stem().string().substr(0, kJobNameBytesMax);
  for (char& c : header.name) {
    if (!IsJobName(std::string(1, c)) && c != '.') c = '_';
  }
  if (!IsJobName(header.name)) header.name = "script";
  return header;
}

StatusOr<ServerSettings> ReadServerSettings(const std::string& path,
                                            const std::vector<std::string>& args,
                                            const std::map<std::string, std::string>& environment) {
  TD_ASSIGN_OR_RETURN(const JobConfig job, ReadJob(path, args, environment));
  const ExecutionStrategy& execution = job.strategy().execution_strategy();
  const bool meet = execution.use_thread_barrier() && job.strategy().a_sync();
  const RuntimeFlags& flags = job.strategy().runtime_flags();
  ServerSettings settings{meet ? 1 : execution.cpu_num(), {}};
  const auto add = [&settings](bool given, const char* name, const std::string& value) {
    if (given) settings.flags.push_back(absl::StrCat("--", name, "=", value));
  };
  const bool bounded = flags.table_memory_mb() != 0;
  add(bounded, "table_memory_mb", std::to_string(flags.table_memory_mb()));
  add(bounded, "rocksdb_path", flags.rocksdb_path());
  add(flags.has_rpc_send_thread_num(), "rpc_send_thread_num",
      std::to_string(flags.rpc_send_thread_num()));
  add(flags.has_rpc_get_thread_num(), "rpc_get_thread_num",
      std::to_string(flags.rpc_get_thread_num()));
  add(flags.has_rpc_prefetch_thread_num(), "rpc_prefetch_thread_num",
      std::to_string(flags.rpc_prefetch_thread_num()));
  return settings;
}

StatusOr<bool> WritesCheckpoints(const std::string& path, const std::vector<std::string>& args,
                                 const std::map<std::string, std::string>& environment) {
  TD_ASSIGN_OR_RETURN(const JobConfig job, ReadJob(path, args, environment));
  return !job.checkpoint().dir().empty();
}

}  // namespace tandem::deploy
