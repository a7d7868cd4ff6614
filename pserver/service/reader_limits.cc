#include "pserver/service/reader_limits.h"

#include "proto/pserver.pb.h"

namespace tandem::pserver {
namespace {

// Maximum of PullTableRequest::bytes_max, which the shard reads under its lock.
constexpr uint64_t kPageBytesMax = 16 << 20;

}  // namespace

Status CheckReaderBytes(size_t bytes) {
  if (bytes <= kReaderPullBytesMax) return OkStatus();
  return ResourceExhausted(
      "Pull: the request of a reader has %d bytes, but the maximum is %d [TD4042]; hint: read "
      "fewer "
      "rows in one request",
      bytes, kReaderPullBytesMax);
}

Status CheckReaderPage(const PullTableRequest& request) {
  if (request.slots()) {
    return PermissionDenied(
        "PullTable: a caller with role reader may read values, but not the state of the optimizer "
        "[TD6009]; hint: request the table without slots, or use a certificate of role trainer or "
        "admin");
  }
  if (request.bytes_max() <= kPageBytesMax) return OkStatus();
  return ResourceExhausted(
      "PullTable: a reader requests a page of %d bytes, but the maximum is %d [TD4042]; hint: "
      "request smaller pages",
      request.bytes_max(), kPageBytesMax);
}

}  // namespace tandem::pserver
