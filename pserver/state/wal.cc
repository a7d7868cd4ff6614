#include "pserver/state/wal.h"

#include "common/base/nearest.h"

namespace tandem::pserver {

StatusOr<WalSync> ParseWalSync(const std::string& text) {
  if (text == "none") return WalSync::kNone;
  if (text == "interval") return WalSync::kInterval;
  if (text == "always") return WalSync::kAlways;
  return InvalidArgument("unknown wal_sync \"%s\", expected none, interval or always [TD1006]%s",
                         text, OrDidYouMean(text, {"none", "interval", "always"}));
}

StatusOr<Replication> ParseReplication(const std::string& text) {
  if (text == "quorum") return Replication::kQuorum;
  if (text == "async") return Replication::kAsync;
  return InvalidArgument("unknown replication \"%s\", expected quorum or async [TD1006]%s", text,
                         OrDidYouMean(text, {"quorum", "async"}));
}

}  // namespace tandem::pserver
