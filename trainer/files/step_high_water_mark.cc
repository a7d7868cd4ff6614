#include "trainer/files/step_high_water_mark.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/os/files.h"

namespace tandem::trainer {
namespace {

constexpr uint64_t kBytesMax = 4096;
constexpr Duration kPause = std::chrono::seconds(1);

}  // namespace

StepHighWaterMark::StepHighWaterMark(const std::string& dir, std::string job, const Clock& clock)
    : path_(dir + "/furthest_step"), job_(std::move(job)), clock_(clock), noted_(Read()) {}

int64_t StepHighWaterMark::Read() const {
  const StatusOr<std::string> text = ReadSmallFile(path_, kBytesMax);
  if (!text.ok()) return 0;
  const size_t space = text->rfind(' ');
  int64_t steps = 0;
  const bool good = space != std::string::npos && text->substr(0, space) == job_ &&
                    absl::SimpleAtoi(text->substr(space + 1), &steps) && steps >= 0;
  return good ? steps : 0;
}

void StepHighWaterMark::Note(int64_t steps_done) {
  const Time now = clock_.Now();
  if (steps_done <= noted_ || (written_ && now - *written_ < kPause)) return;
  written_ = now;
  const std::string text = absl::StrCat(job_, " ", steps_done, "\n");
  const auto write = [&](const std::string& path) { return WriteTextFile(path, text); };
  if (PublishFiles({{path_, write}}).ok()) noted_ = steps_done;
}

}  // namespace tandem::trainer
