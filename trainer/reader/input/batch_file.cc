#include "trainer/reader/input/batch_file.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/os/files.h"

namespace tandem::reader {
namespace {

constexpr uint64_t kBatchBytesMax = 64;

// Writes the sizes so that they are durable before the first step.
Status WriteSizes(const std::string& dir, const std::string& path, const LogShare& share) {
  const std::string text = absl::StrFormat("%d %d\n", share.global_batch, share.ranks);
  TD_RETURN_IF_ERROR(PublishFiles({{path, [&text](const std::string& draft) {
                                      FileWriter file;
                                      TD_RETURN_IF_ERROR(file.Open(draft));
                                      TD_RETURN_IF_ERROR(file.Write(text.data(), text.size()));
                                      return file.SyncAndClose();
                                    }}}));
  return SyncDir(dir);
}

}  // namespace

std::string FileNameOf(const std::string& job) {
  std::string name = job;
  std::ranges::replace(name, '/', '_');
  return name;
}

Status CheckBatchFile(const std::string& dir, const std::string& source, const std::string& job,
                      uint64_t step, const LogShare& share, bool together) {
  const std::string path = dir + "/.tandem-batch-" + FileNameOf(job);
  StatusOr<std::string> text = ReadSmallFile(path, kBatchBytesMax);
  const bool begins = step == 0 && together;
  if (begins || text.status().code() == StatusCode::kNotFound) {
    return share.rank == 0 ? WriteSizes(dir, path, share) : OkStatus();
  }
  TD_RETURN_IF_ERROR(text.status());
  const std::vector<std::string> parts =
      absl::StrSplit(absl::StripAsciiWhitespace(*text), ' ', absl::SkipEmpty());
  uint64_t batch = 0, ranks = share.ranks;
  const bool readable = (parts.size() == 1 || parts.size() == 2) &&
                        absl::SimpleAtoi(parts[0], &batch) &&
                        (parts.size() == 1 || absl::SimpleAtoi(parts[1], &ranks));
  if (!readable) {
    return DataLoss("%s: the text is not \"BATCH WORKERS\" [TD2010]; hint: remove the file", path);
  }
  if (ranks != share.ranks) {
    return FailedPrecondition(
        "job %s has read %d steps of %s with %d workers, but it has %d now, so the steps do not "
        "say which records each worker has read [TD2010]; hint: start the job with %d workers",
        job, step, source, ranks, share.ranks, ranks);
  }
  if (batch != share.global_batch) {
    return FailedPrecondition(
        "job %s has read %d steps of %s in global batches of %d records, but its global batch is "
        "now %d, so the steps do not say which records were read [TD2010]; hint: use the former "
        "batch size and number of workers, or remove %s to continue with record %d",
        job, step, source, batch, share.global_batch, path, step * share.global_batch);
  }
  return OkStatus();
}

}  // namespace tandem::reader
