// Unix sockets with abstract names. They need no directory and disappear with the socket. A process
// that can connect shares the kernel and the network namespace. The sockets transfer file
// descriptors, and report immediately when the process at the other end has ended.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem {

// REQUIRES that `name` has at most 100 bytes. UNAVAILABLE: the listen failed, for example because
// the name is in use.
StatusOr<Fd> ListenAbstract(const std::string& name, int backlog);
// UNAVAILABLE: no process listens there; the peer is on another host or in another network
// namespace.
StatusOr<Fd> ConnectAbstract(const std::string& name);
// Returns whether the process at the other end runs as the same user.
bool IsSameUser(int socket);

// Waits for poll(2) `events`. DEADLINE_EXCEEDED: `deadline` passed.
Status WaitReady(int fd, short events, Time deadline);

// Sends `bytes` (at least one) with `fds`. The receiver must expect the same number of each. Never
// blocks for long. UNAVAILABLE: the peer does not accept them.
Status SendFds(int socket, std::span<const std::byte> bytes, std::span<const int> fds);
// Fills `bytes` and returns `count` descriptors. UNAVAILABLE: the peer has ended or has sent
// something else.
StatusOr<std::vector<Fd>> ReceiveFds(int socket, std::span<std::byte> bytes, size_t count,
                                     Time deadline);

}  // namespace tandem
