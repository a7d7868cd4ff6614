#include "common/base/predecessor.h"

#include <poll.h>

#include "common/base/check.h"

namespace tandem {
namespace {

constexpr int kPauseMs = 100;

}  // namespace

bool WaitForPreviousInstance(const std::string& what, const std::function<bool()>& held,
                             Duration patience) {
  const Time end = SteadyNow() + patience;
  for (bool said = false; held(); said = true) {
    if (SteadyNow() >= end) return false;
    LOG_IF(WARNING, !said) << what << "; waiting at most " << Seconds(patience)
                           << " s for the earlier process to end";
    // Polls, because the kernel sends no notification when the resource becomes free.
    poll(nullptr, 0, kPauseMs);
  }
  return true;
}

}  // namespace tandem
