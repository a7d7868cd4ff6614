// Fuzz target: requests to the port of the status page and metrics. Each request uses a separate
// connection.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/http/http_server.h"
#include "common/os/fd.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem {
namespace {

Fd Connect(const Endpoint& server) {
  Fd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(server.port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit = {20, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  PCHECK(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  return fd;
}

// While the object exists, this thread blocks the alarm signals of libFuzzer, so that another
// thread receives them. Without the object, the signals interrupt system calls of this thread.
class NoAlarms {
 public:
  NoAlarms() {
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, &before_);
  }
  ~NoAlarms() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoAlarms(const NoAlarms&) = delete;
  NoAlarms& operator=(const NoAlarms&) = delete;

 private:
  sigset_t before_;
};

// Sends `input`. Returns all bytes that the server sends until it closes the connection.
std::string Ask(const http::HttpServer& server, std::string_view input) {
  const NoAlarms none;
  const Fd fd = Connect(server.endpoint());
  // send may fail, because the server may close the connection early.
  (void)send(fd.get(), input.data(), input.size(), MSG_NOSIGNAL);
  shutdown(fd.get(), SHUT_WR);
  std::string all;
  char part[4096];
  ssize_t got;
  while ((got = recv(fd.get(), part, sizeof(part), 0)) > 0) {
    all.append(part, static_cast<size_t>(got));
  }
  CHECK(got == 0 || errno != EAGAIN) << "the server neither answers nor closes";
  return all;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  auto started =
      http::HttpServer::Start({}, {{"/metrics", [] { return http::HttpReply{.body = "up 1\n"}; }}});
  CHECK(started.ok()) << started.status();
  const auto accepts =
      [server = std::shared_ptr<http::HttpServer>(*std::move(started))](std::string_view input) {
        const std::string answer = Ask(*server, input);
        CHECK(answer.empty() || answer.starts_with("HTTP/1.")) << answer;
        return answer.find(" 200 OK\r\n") != std::string::npos;
      };
  return {{"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
           "HEAD /metrics?x=1 HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
           "POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
           "3\r\nabc\r\n0\r\n\r\nGET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"},
          {"GET ", "HEAD ", "HTTP/1.0", "Host:", "Content-Length:", "Expect: 100-continue\r\n",
           "chunked", "\r\n", "Connection: keep-alive"},
          accepts};
}

}  // namespace tandem
