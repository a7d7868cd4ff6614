#include "common/http/http_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "common/base/check.h"
#include "common/http/status_page.h"
#include "gmock/gmock.h"

namespace tandem::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A connection to the server. Sends texts and receives the server's replies.
class Peer {
 public:
  explicit Peer(const Endpoint& server) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(server.port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit = {20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Peer() { close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Send(const std::string& text) {
    // The result of send is ignored, because the server may close the connection early.
    (void)send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  // Returns one reply with a body of 9 bytes.
  std::string Answer() {
    std::string all;
    char byte;
    while (!all.ends_with("the page\n") && recv(fd_, &byte, 1, 0) == 1) all += byte;
    return all;
  }
  std::string UntilClosed() {
    std::string all;
    char part[4096];
    ssize_t got;
    while ((got = recv(fd_, part, sizeof(part), 0)) > 0) all.append(part, static_cast<size_t>(got));
    EXPECT_FALSE(got < 0 && errno == EAGAIN) << "the server neither answers nor closes";
    return all;
  }

 private:
  const int fd_;
};

std::string Ask(const HttpServer& server, const std::string& line,
                const std::string& host = "localhost") {
  Peer peer(server.endpoint());
  peer.Send(line + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
  return peer.UntilClosed();
}

std::unique_ptr<HttpServer> Serve(HttpServerOptions options = {}) {
  auto server = HttpServer::Start(options, {{"/", [] { return HttpReply{.body = "the page\n"}; }},
                                            {"/late", [] {
                                               return HttpReply{503, "text/plain", "not yet\n"};
                                             }}});
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

TEST(HttpServer, AnswersFromItsTable) {
  const auto server = Serve();
  const std::string page = Ask(*server, "GET /?at=5");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Length: 9\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(page, EndsWith("\r\n\r\nthe page\n"));
  EXPECT_THAT(Ask(*server, "GET /late"), StartsWith("HTTP/1.1 503"));
  const std::string head = Ask(*server, "HEAD /");
  EXPECT_THAT(head, HasSubstr("Content-Length: 9\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
}

TEST(HttpServer, OneConnectionServesManyRequests) {
  const auto server = Serve();
  Peer peer(server->endpoint());
  const std::string request = "GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\n";
  peer.Send(request + "\r\n" + request + "\r\n" + request + "Connection: close\r\n\r\n");
  const std::string all = peer.UntilClosed();
  size_t answers = 0;
  for (size_t at = 0; (at = all.find("the page", at)) != std::string::npos; ++at) ++answers;
  EXPECT_EQ(answers, 3u);
}

TEST(HttpServer, RefusesWithASentence) {
  const auto server = Serve();
  EXPECT_THAT(Ask(*server, "GET /nowhere"),
              testing::AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("the pages are: / /late")));
  EXPECT_THAT(Ask(*server, "POST /"), StartsWith("HTTP/1.1 405"));
  // Host headers of another site. A page of that site could make its host name resolve to this
  // machine (DNS rebinding).
  for (const char* host :
       {"evil.example", "evil.example:80", "", "[::1", "127.0.0.1.evil.example"}) {
    EXPECT_THAT(Ask(*server, "GET /", host), StartsWith("HTTP/1.1 421")) << host;
  }
  for (const char* host : {"localhost", "127.0.0.1:8080", "[::1]:8080", "[::1]"}) {
    EXPECT_THAT(Ask(*server, "GET /", host), StartsWith("HTTP/1.1 200")) << host;
  }
}

TEST(HttpServer, GarbageAndExcessCloseThatConnectionOnly) {
  const auto server = Serve();
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>(i * 37);
  const std::string many(1 << 20, 'x');
  for (const std::string& text :
       {bytes, std::string("\r\n\r\n\r\n"), "GET / HTTP/9.9\r\n\r\n" + bytes,
        "GET /" + many + " HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nX: " + many + "\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n" + many}) {
    Peer peer(server->endpoint());
    peer.Send(text);
    EXPECT_THAT(peer.UntilClosed(), Not(HasSubstr("the page")));
  }
  EXPECT_THAT(Ask(*server, "GET /"), HasSubstr("the page"));
}

TEST(HttpServer, SilentPeersAreClosedAndTheirNumberIsBounded) {
  HttpServerOptions options;
  options.timeout = std::chrono::seconds(1);  // the maximum time for a connection without a request
  options.connections_max = 3;
  const auto server = Serve(options);
  std::vector<std::unique_ptr<Peer>> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(std::make_unique<Peer>(server->endpoint()));
  silent[0]->Send("GET / HT");  // begins a request that it never completes
  for (const auto& peer : silent) EXPECT_EQ(peer->UntilClosed(), "");
  EXPECT_THAT(Ask(*server, "GET /"), HasSubstr("the page"));
}

// Connections that stay open after a reply must not block a health probe.
TEST(HttpServer, TheConnectionThatIsIdleLongestMakesRoom) {
  HttpServerOptions options;
  options.connections_max = 2;
  options.timeout = std::chrono::minutes(10);
  const auto server = Serve(options);
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  Peer first(server->endpoint()), second(server->endpoint());
  for (Peer* peer : {&first, &second, &first}) {  // leaves `second` idle for the longest time
    peer->Send(request);
    EXPECT_THAT(peer->Answer(), HasSubstr("the page"));
  }
  EXPECT_THAT(Ask(*server, "GET /"), HasSubstr("the page"));
  EXPECT_EQ(second.UntilClosed(), "");
  first.Send(request);
  EXPECT_THAT(first.Answer(), HasSubstr("the page"));
}

TEST(HttpServer, AFloodOfIdleConnectionsIsBounded) {
  HttpServerOptions options;
  options.connections_max = 4;
  options.timeout = std::chrono::minutes(10);
  const auto server = Serve(options);
  std::vector<std::unique_ptr<Peer>> flood;
  for (int i = 0; i < 40; ++i) {
    flood.push_back(std::make_unique<Peer>(server->endpoint()));
    // Every second peer begins a request but never completes it.
    if (i % 2 == 0) flood.back()->Send("GET / HTTP/1.1\r\n");
  }
  EXPECT_THAT(Ask(*server, "GET /"), HasSubstr("the page"));
  for (int i = 0; i < 36; ++i) EXPECT_EQ(flood[static_cast<size_t>(i)]->UntilClosed(), "") << i;
}

TEST(HttpServer, StopsWithOpenConnections) {
  auto server = Serve();
  Peer peer(server->endpoint());
  peer.Send("GET / HTTP/1.1\r\n");
  server.reset();
  EXPECT_EQ(peer.UntilClosed(), "");
}

TEST(HttpServer, AddressesItCannotHave) {
  HttpServerOptions options;
  options.listen = {"0.0.0.0", 0};
  const auto refused = HttpServer::Start(options, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--insecure_allow_network"));
  options.insecure_allow_network = true;
  const auto allowed = Serve(options);
  EXPECT_THAT(Ask(*allowed, "GET /", "node7.example"), HasSubstr("the page"));

  options.listen = {"127.0.0.1", allowed->endpoint().port};
  const auto taken = HttpServer::Start(options, {});
  EXPECT_EQ(taken.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr(ToString(options.listen)));
  options.listen = {"nonsense", 1};
  EXPECT_EQ(HttpServer::Start(options, {}).status().code(), StatusCode::kInvalidArgument);
}

bool WaitUntil(const std::function<bool()>& done) {
  const Time until = SteadyNow() + std::chrono::seconds(20);
  while (!done()) {
    if (SteadyNow() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

StatusDocument Document(bool ready) {
  StatusDocument document;
  document.title = "job \"<b>\" \xff";  // a title with markup and a byte that is not UTF-8
  document.ready = ready;
  document.progress = 0.25;
  document.facts = {{"step", "5 of 20"}};
  document.series = {{"loss", "step", {{0, 2.5}, {1, NAN}}}};
  document.tables = {{"trainers", {"trainer", "state"}, {{"0", "at work"}}}};
  return document;
}

TEST(StatusPage, EveryRouteAnswers) {
  Metrics metrics;
  metrics.GetCounter("tandem_steps_total", "Steps").Add(3);
  std::atomic<bool> ready{false};
  const auto server =
      HttpServer::Start({}, StatusRoutes([&] { return Document(ready.load()); }, metrics));
  ASSERT_TRUE(server.ok()) << server.status();
  const auto body = [&](const std::string& path) {
    const std::string all = Ask(**server, "GET " + path);
    return all.substr(std::min(all.size(), all.find("\r\n\r\n") + 4));
  };
  EXPECT_THAT(body("/"), HasSubstr("</html>"));
  EXPECT_THAT(body("/status_page.js"), HasSubstr("status.json"));
  EXPECT_THAT(body("/status_page.css"), HasSubstr("{"));
  EXPECT_THAT(body("/metrics"), HasSubstr("\ntandem_steps_total 3"));
  EXPECT_EQ(body("/healthz"), "ok\n");
  EXPECT_THAT(Ask(**server, "GET /readyz"), StartsWith("HTTP/1.1 503"));
  ready.store(true);
  // On a loaded machine the server may still return the previous state for a short time.
  EXPECT_TRUE(WaitUntil([&] { return body("/readyz") == "ready\n"; }));

  const auto health = HttpServer::Start({}, HealthRoutes([&] { return Document(ready.load()); }));
  ASSERT_TRUE(health.ok()) << health.status();
  EXPECT_THAT(Ask(**health, "GET /healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask(**health, "GET /readyz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask(**health, "GET /status.json"), StartsWith("HTTP/1.1 404"));
  ready.store(false);
  EXPECT_THAT(Ask(**health, "GET /readyz"), StartsWith("HTTP/1.1 503"));

  const auto json = nlohmann::json::parse(body("/status.json"));
  EXPECT_EQ(json["title"], "job \"<b>\" \xef\xbf\xbd");
  EXPECT_EQ(json["progress"], 0.25);
  EXPECT_EQ(json["facts"][0][1], "5 of 20");
  EXPECT_EQ(json["series"][0]["points"][0][1], 2.5);
  EXPECT_TRUE(json["series"][0]["points"][1][1].is_null());
  EXPECT_EQ(json["tables"][0]["rows"][0][1], "at work");
}

// The daemon may hold a lock for a long time, or its disk may not respond. A health probe must not
// wait for the daemon.
TEST(StatusPage, ProbesAnswerWhileTheDocumentWaits) {
  Metrics metrics;
  std::mutex held;
  std::atomic<bool> waits{false};
  const auto server = HttpServer::Start({}, StatusRoutes(
                                                [&] {
                                                  waits.store(true);
                                                  const std::lock_guard lock(held);
                                                  waits.store(false);
                                                  return Document(true);
                                                },
                                                metrics));
  ASSERT_TRUE(server.ok()) << server.status();
  const auto ask = [&](const std::string& path) {
    auto asked = std::async(std::launch::async, [&] { return Ask(**server, "GET " + path); });
    CHECK(asked.wait_for(std::chrono::seconds(20)) == std::future_status::ready)
        << path << " waits for the document";
    return asked.get();
  };
  std::unique_lock lock(held);
  EXPECT_THAT(ask("/readyz"), StartsWith("HTTP/1.1 503")) << "there was no document yet";
  EXPECT_TRUE(waits.load());
  EXPECT_THAT(ask("/healthz"), StartsWith("HTTP/1.1 200"));
  lock.unlock();
  EXPECT_TRUE(WaitUntil([&] { return ask("/readyz").starts_with("HTTP/1.1 200"); }));
  EXPECT_TRUE(WaitUntil([&] { return !waits.load(); }));
  lock.lock();
  EXPECT_THAT(ask("/readyz"), StartsWith("HTTP/1.1 200")) << "as the last document says";
  EXPECT_THAT(ask("/status.json"), HasSubstr("age of this page"));
  EXPECT_THAT(ask("/healthz"), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace tandem::http
