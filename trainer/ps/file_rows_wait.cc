#include "trainer/ps/file_rows_wait.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::trainer {

StatusOr<uint64_t> AwaitFileRows(const std::function<StatusOr<uint64_t>()>& fetch,
                                 const std::function<StatusOr<uint64_t>()>& rows,
                                 const Clock& clock) {
  uint64_t known = 0;
  Time progress = clock.Now();
  while (true) {
    StatusOr<uint64_t> version = fetch();
    if (version.status().code() != StatusCode::kDeadlineExceeded) return version;
    TD_ASSIGN_OR_RETURN(const uint64_t sent, rows());
    if (std::exchange(known, sent) != sent) progress = clock.Now();
    if (clock.Now() - progress >= kFileRowsWait) return version;
    LOG(INFO) << "waiting for trainer 0, which loads the files of model.init: the pservers have "
              << known << " rows";
  }
}

}  // namespace tandem::trainer
