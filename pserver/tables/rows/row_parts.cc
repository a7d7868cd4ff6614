#include "pserver/tables/rows/row_parts.h"

#include <algorithm>
#include <vector>

namespace tandem::pserver {
namespace {

constexpr size_t kPartRows = 1024;  // minimum rows per part: work of about 100 us

}  // namespace

Status RowParts::Run(size_t rows, size_t range, const Work& work) const {
  int parts = 1;
  if (workers_ != nullptr) {
    parts = std::clamp(static_cast<int>(rows / kPartRows), 1, workers_->threads());
  }
  if (parts == 1) return work(0, 0, range);
  std::vector<Status> done(static_cast<size_t>(parts));
  workers_->Run(parts, [&](int part) {
    const auto p = static_cast<size_t>(part), n = static_cast<size_t>(parts);
    done[p] = work(part, range * p / n, range * (p + 1) / n);
  });
  for (const Status& status : done) TD_RETURN_IF_ERROR(status);
  return OkStatus();
}

}  // namespace tandem::pserver
