#include "common/strategy/diagnostics.h"
#include "common/strategy/text_file.h"
#include "deploy/launch/launch_options.h"
#include "proto/job.pb.h"

namespace tandem::deploy {
namespace {

constexpr size_t kJobNameBytesMax = 64;

bool IsJobName(const std::string& name) {
  constexpr char kAllowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= kJobNameBytesMax && name[0] != '.' &&
         name.find_first_not_of(kAllowed) == std::string::npos;
}

}  // namespace

StatusOr<JobHeader> ReadJobHeader(const std::string& path) {
  JobConfig job;
  Diagnostics diagnostics;
  TD_RETURN_IF_ERROR(LoadTextProto(path, &job, nullptr, &diagnostics));
  JobHeader header;
  header.name = job.name();
  // The name becomes a folder, so it may not lead elsewhere.
  if (!IsJobName(header.name)) {
    return InvalidArgument(
        "%s: name: expected 1 to %d of letters, digits, '.', '_', '-', got \"%s\"", path,
        kJobNameBytesMax, header.name);
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
      return InvalidArgument("%s: mode: HYBRID is not built yet", path);
  }
  return header;
}

}  // namespace tandem::deploy
