// Unix sockets with abstract names, which need no folder and are gone with their socket: who
// reaches one shares the kernel and its network namespace. They hand over file descriptors, and
// tell at once when the process at the other end is gone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem {

// `name`: at most 100 bytes. UNAVAILABLE, also when it is taken.
StatusOr<Fd> ListenAbstract(const std::string& name, int backlog);
// UNAVAILABLE when nobody listens there: another host, or another network namespace.
StatusOr<Fd> ConnectAbstract(const std::string& name);
// Whether the process at the other end runs as the same user.
bool IsSameUser(int socket);

// Waits for poll(2) `events`. DEADLINE_EXCEEDED.
Status WaitReady(int fd, short events, Time deadline);

// `bytes` (at least one) with `fds`; both sides must mean the same number of each. Never blocks for
// long: UNAVAILABLE when the other end does not take them.
Status SendFds(int socket, std::span<const std::byte> bytes, std::span<const int> fds);
// Fills `bytes`. UNAVAILABLE when the other end is gone or sent something else.
StatusOr<std::vector<Fd>> ReceiveFds(int socket, std::span<std::byte> bytes, size_t count,
                                     Time deadline);

}  // namespace tandem
