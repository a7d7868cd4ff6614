// Unix-domain sockets with abstract names. An abstract name needs no directory and disappears with
// the socket. Client and server must have the same kernel and network namespace. The sockets
// transfer file descriptors. They also report the end of the peer immediately.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem {

// Listens on a socket with the abstract name `name`, at most 100 bytes. UNAVAILABLE: the name is in
// use, or another error of the system.
StatusOr<Fd> ListenAbstract(const std::string& name, int backlog);
// Connects to the abstract name `name`. UNAVAILABLE: no process listens there, or the peer is on
// another host or in another network namespace.
StatusOr<Fd> ConnectAbstract(const std::string& name);
// Returns whether the process at the other end of the socket runs as the same user as this process.
bool IsSameUser(int socket);

// Waits for one of the poll(2) `events` of `fd`. DEADLINE_EXCEEDED: no event occurred until
// `deadline`.
Status WaitReady(int fd, short events, Time deadline);

// Sends `bytes` together with the descriptors `fds`. The receiver must expect the same numbers of
// bytes and descriptors. Does not wait for the receiver. UNAVAILABLE: the kernel did not accept all
// bytes. REQUIRES: `bytes` is not empty.
Status SendFds(int socket, std::span<const std::byte> bytes, std::span<const int> fds);
// Fills `bytes` and returns `count` descriptors that the peer sent with SendFds. DEADLINE_EXCEEDED:
// no data arrived until `deadline`. UNAVAILABLE: the peer has ended, or has sent other numbers of
// bytes or descriptors.
StatusOr<std::vector<Fd>> ReceiveFds(int socket, std::span<std::byte> bytes, size_t count,
                                     Time deadline);

}  // namespace tandem
