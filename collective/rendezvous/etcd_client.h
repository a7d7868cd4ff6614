// Calls to etcd (version 3), with TLS and users.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collective/rendezvous/etcd_access.h"
#include "collective/rendezvous/host_port.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace tandem::collective {

// For one thread at a time.
class EtcdClient {
 public:
  static constexpr Duration kCallMax = std::chrono::seconds(1);  // time limit of one call

  // `tls`: true: the connection uses TLS, and access.tls names the files. Opens no connection.
  EtcdClient(const HostPort& server, bool tls, const EtcdAccess& access);
  ~EtcdClient();

  // Reads the files of `access`. Must be called before the other methods; later calls do nothing.
  // INVALID_ARGUMENT: TLS without an authority, or TLS files without TLS. PERMISSION_DENIED: a
  // password would go over a network without TLS, or other users can read a key or the password.
  // Also the errors of rpc::CheckTlsFiles.
  Status Connect();

  // All calls take at most one second each, so that a rank can stop on request between two calls.
  // They log the user in if necessary. PERMISSION_DENIED: etcd denies access, or TLS of the two
  // sides does not fit; a retry does not help. UNAVAILABLE: any other error; a retry may help.
  // REQUIRES: Connect returned OK.

  // Returns the value of `key`; nullopt: there is no such key.
  StatusOr<std::optional<std::string>> Get(const std::string& key, Time deadline);
  // Creates `key` under a lease, unless it exists. Returns the value of an existing key; nullopt:
  // the key was created. NOT_FOUND: the lease has expired.
  StatusOr<std::optional<std::string>> Create(const std::string& key, const std::string& value,
                                              int64_t lease, Time deadline);
  // Returns the number of a new lease, which lasts `seconds`.
  StatusOr<int64_t> GrantLease(int64_t seconds, Time deadline);
  // Renews a lease. Returns false if it has expired.
  StatusOr<bool> RenewLease(int64_t lease, Time deadline);
  Status RevokeLease(int64_t lease, Time deadline);

 private:
  struct Stubs;

  // Calls `method` of `stub`. Repeats the call if the user's token has expired.
  template <typename Stub, typename Method, typename Request, typename Response>
  Status Call(Stub& stub, Method method, const Request& request, Response* response, Time deadline);
  // UNAVAILABLE: the deadline has passed.
  Status SetDeadline(Time deadline, grpc::ClientContext* context) const;
  // Sets deadline and token of a call. Logs the user in if necessary.
  Status Prepare(Time deadline, grpc::ClientContext* context);
  Status LogIn(Time deadline);
  // Returns true if `status` is the error of an expired token. The next call then gets a new token.
  bool LoggedOut(const Status& status);
  Status Result(const Status& status);
  Status TlsError() const;  // why TLS of the two sides does not fit; OK: it fits or is unknown

  const HostPort server_;
  const bool tls_;
  const EtcdAccess access_;
  std::string password_, token_;  // token_: proves the user to etcd; empty: not logged in
  bool answered_ = false;         // true: etcd has replied to a call
  std::unique_ptr<Stubs> stubs_;  // null: Connect has not succeeded
};

}  // namespace tandem::collective
