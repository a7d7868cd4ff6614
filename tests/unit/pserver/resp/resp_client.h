// A client of RESP for tests, over a TCP or Unix-domain socket.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/endpoint.h"
#include "common/os/fd.h"

namespace tandem::pserver {

// Returns a command as RESP has it: an array of bulk strings.
inline std::string Encoded(const std::vector<std::string>& arguments) {
  std::string text = "*" + std::to_string(arguments.size()) + "\r\n";
  for (const std::string& a : arguments) {
    text += "$" + std::to_string(a.size()) + "\r\n" + a + "\r\n";
  }
  return text;
}

// One connection. Every read ends after 20 seconds. Not thread-safe.
class RespClient {
 public:
  explicit RespClient(const Endpoint& server) {
    const int family = server.is_unix() ? AF_UNIX : AF_INET;
    fd_ = Fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit = {20, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    sockaddr_in inet{};
    inet.sin_family = AF_INET;
    inet.sin_port = htons(static_cast<uint16_t>(server.port));
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    std::memcpy(path.sun_path, server.path.data(), server.path.size());
    const auto* to = server.is_unix() ? reinterpret_cast<const sockaddr*>(&path)
                                      : reinterpret_cast<const sockaddr*>(&inet);
    PCHECK(connect(fd_.get(), to, server.is_unix() ? sizeof(path) : sizeof(inet)) == 0);
  }

  // Returns whether all bytes were sent.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // Returns the next reply. A bulk string is its bytes, an array or map is "[A|B]", another reply
  // is its line. "closed": the server has closed the connection.
  std::string Receive() {
    const std::string line = Line();
    if (line.empty()) return "closed";
    if (line[0] == '$') {
      std::string bytes = Take(std::stoul(line.substr(1)) + 2);
      bytes.resize(bytes.size() - 2);
      return bytes;
    }
    if (line[0] != '*' && line[0] != '%') return line;
    std::string all = "[";
    const size_t elements = std::stoul(line.substr(1)) * (line[0] == '%' ? 2 : 1);
    for (size_t i = 0; i < elements; ++i) all += (i == 0 ? "" : "|") + Receive();
    return all + "]";
  }
  std::string Ask(const std::vector<std::string>& arguments) {
    return Send(Encoded(arguments)) ? Receive() : "closed";
  }
  int fd() const { return fd_.get(); }

 private:
  bool More() {
    char part[1 << 16];
    const ssize_t n = recv(fd_.get(), part, sizeof(part), 0);
    CHECK(n >= 0 || errno != EAGAIN) << "the server does not reply";
    if (n <= 0) return false;
    received_.append(part, static_cast<size_t>(n));
    return true;
  }
  std::string Line() {
    size_t end;
    while ((end = received_.find("\r\n")) == std::string::npos) {
      if (!More()) return "";
    }
    std::string line = Take(end + 2);
    line.resize(end);
    return line;
  }
  std::string Take(size_t bytes) {
    while (received_.size() < bytes) {
      if (!More()) return std::string(bytes, '?');
    }
    std::string taken = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return taken;
  }

  Fd fd_;
  std::string received_;
};

}  // namespace tandem::pserver
