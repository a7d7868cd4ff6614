#include "common/rpc/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <filesystem>

#include "common/rpc/admissions.h"
#include "common/rpc/channel.h"
#include "common/rpc/listen.h"
#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "proto/pserver.grpc.pb.h"
#include "tests/support/temp_dir.h"

namespace tandem::rpc {
namespace {

using testing::HasSubstr;

constexpr Duration kLong = std::chrono::seconds(60);

// A service that replies to every GetStatus with the name that gRPC has for the caller.
class Names final : public ParameterServer::Service {
 public:
  grpc::Status GetStatus(grpc::ServerContext* context, const StatusRequest*,
                         StatusReply* reply) override {
    if (admissions != nullptr) admissions->Prove(context->peer(), Standing::kTrusted);
    reply->set_job(context->peer());
    return grpc::Status::OK;
  }
  std::shared_ptr<Admissions> admissions;
};

// Returns the caller's name. If the call fails, returns "" and prints the reason.
std::string Ask(const std::shared_ptr<grpc::Channel>& channel, Duration timeout = kLong) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
  context.set_wait_for_ready(true);
  StatusReply reply;
  const auto stub = ParameterServer::NewStub(channel);
  const grpc::Status status = stub->GetStatus(&context, StatusRequest(), &reply);
  return status.ok() ? reply.job() : "";
}

std::shared_ptr<grpc::Channel> ChannelTo(const RpcServer& server) {
  auto channel = MakeChannel(server.endpoint(), TlsFiles{});
  CHECK(channel.ok()) << channel.status();
  return *std::move(channel);
}

Fd Dial(int port, const char* bytes = "") {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return Fd();
  (void)send(fd.get(), bytes, strlen(bytes), MSG_NOSIGNAL);
  return fd;
}

// Returns whether the server closes the connection within `timeout`. Ignores bytes that arrive
// before that.
bool Closed(const Fd& fd, Duration timeout = kLong) {
  const Time end = SteadyNow() + timeout;
  char bytes[256];
  while (SteadyNow() < end) {
    pollfd one{fd.get(), POLLIN, 0};
    if (poll(&one, 1, 100) != 1) continue;
    const ssize_t got = recv(fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

class AcceptorTest : public testing::Test {
 protected:
  void Serve(ServerOptions options = {}, const AdmissionLimits& limits = LimitsForThisProcess()) {
    admissions_ = std::make_shared<Admissions>(limits);
    options.admissions = admissions_;
    names_.admissions = limits.callers_prove ? admissions_ : nullptr;
    auto server = RpcServer::Start(options, {&names_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  int port() const { return server_->endpoint().port; }

  Names names_;
  std::shared_ptr<Admissions> admissions_;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(AcceptorTest, PeersHaveTheNamesThatGrpcGivesThem) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    AdmissionLimits limits;
    limits.callers_prove = true;
    ServerOptions options;
    options.listen.host = host;
    Serve(options, limits);
    const auto channel = ChannelTo(*server_);
    EXPECT_NE(Ask(channel), "");
    EXPECT_EQ(admissions_->strangers(), 0u) << host << ": the caller proved itself";
    EXPECT_EQ(admissions_->connections(), 1u);
  }
}

TEST_F(AcceptorTest, OtherProtocolsAreTurnedAwayAtOnceAndTheSilentSoon) {
  Serve();
  const Time start = SteadyNow();
  EXPECT_TRUE(Closed(Dial(port(), "GET / HTTP/1.1\r\n\r\n")));
  EXPECT_TRUE(Closed(Dial(port(), "\x16\x03\x01\x02")));
  EXPECT_LT(Seconds(SteadyNow() - start), 4.0);
  const Fd silent = Dial(port()), half = Dial(port(), "PRI * HT");
  EXPECT_TRUE(Closed(silent) && Closed(half));
  EXPECT_GE(Seconds(SteadyNow() - start), 4.0);
  EXPECT_NE(Ask(ChannelTo(*server_)), "");
}

// The limits for strangers bound the number of idle connections of a flood. The process must still
// be able to open files, and old and new callers of the job must get replies.
TEST_F(AcceptorTest, AFloodLeavesDescriptorsAndPlaces) {
  AdmissionLimits limits;
  limits.connections_max = 40;
  limits.strangers_max = 20;
  limits.strangers_per_source_max = 10;
  limits.callers_prove = true;
  Serve({}, limits);
  const auto trusted = ChannelTo(*server_);
  ASSERT_NE(Ask(trusted), "");
  std::vector<Fd> flood;
  for (int i = 0; i < 300; ++i) flood.push_back(Dial(port(), i % 2 == 0 ? "" : "PRI * HTTP/2.0"));
  const Time end = SteadyNow() + kLong;
  while (admissions_->turned_away() < 280 && SteadyNow() < end) poll(nullptr, 0, 10);
  EXPECT_GE(admissions_->turned_away(), 280u);
  EXPECT_LE(admissions_->connections(), 50u);
  EXPECT_LE(admissions_->strangers(), 10u);
  EXPECT_NE(Ask(trusted), "");
  EXPECT_NE(Ask(ChannelTo(*server_)), "");
  EXPECT_NE(Ask(trusted), "");
}

// The test process holds both ends of every connection. Therefore the process reaches its limit of
// descriptors with half as many connections.
TEST_F(AcceptorTest, AServerWithoutDescriptorsRecoversAndDoesNotSpin) {
  Serve();
  ASSERT_NE(Ask(ChannelTo(*server_)), "");
  // The sockets of the clients are created before the limit is set, so that a connect needs no new
  // descriptor.
  std::vector<Fd> crowd(60);
  for (Fd& fd : crowd) fd.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(crowd.back().get()) + 5;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (const Fd& fd : crowd) {
    (void)connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }
  rusage used{}, later{};
  getrusage(RUSAGE_SELF, &used);
  const Time start = SteadyNow();
  poll(nullptr, 0, 1000);
  getrusage(RUSAGE_SELF, &later);
  const auto cpu = [](const rusage& u) {
    return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
  };
  EXPECT_LT((cpu(later) - cpu(used)) / Seconds(SteadyNow() - start), 0.5) << "of a core";
  EXPECT_GT(admissions_->turned_away(), 0u);
  crowd.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(Ask(ChannelTo(*server_)), "");
}

TEST(LimitsTest, HalfOfTheDescriptorsIsForOthers) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const AdmissionLimits limits = LimitsForThisProcess();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(limits.connections_max, 100u);
  EXPECT_EQ(limits.strangers_max, 50u);
  EXPECT_EQ(limits.strangers_per_source_max, 25u);
}

// ---- Listening addresses -----------------------------------------------------------------------

TEST(ListenTest, AllAddressesOrNone) {
  const auto both = ListenOnAll({"127.0.0.1", "::1"}, 0);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->sockets.size(), 2u);
  const auto thief = ListenOnAll({"::1"}, 0);
  ASSERT_TRUE(thief.ok()) << thief.status();
  const auto refused = ListenOnAll({"127.0.0.1", "::1"}, thief->port);
  EXPECT_TRUE(absl::IsAlreadyExists(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("[::1]:"));
  // A socket at the IPv6 address of all interfaces also listens at the machine's IPv4 addresses.
  const auto other = ListenOnAll({"127.0.0.1"}, 0);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(absl::IsAlreadyExists(ListenOn({"::", other->port}).status()));
}

TEST_F(AcceptorTest, LocalhostIsOneAddressOnBothSides) {
  ServerOptions options;
  options.listen.host = "localhost";
  Serve(options);
  EXPECT_THAT(Ask(ChannelTo(*server_)), HasSubstr("ipv4:127.0.0.1:"));
  EXPECT_FALSE(ListenOnAll({"127.0.0.1"}, port()).ok());
  EXPECT_TRUE(ListenOnAll({"::1"}, port()).ok()) << "another's, which no caller asks";
}

TEST_F(AcceptorTest, ServesASocketThatWasHandedIn) {
  auto made = ListenOnAll({"127.0.0.1"}, 0);
  ASSERT_TRUE(made.ok()) << made.status();
  ServerOptions options;
  options.listeners = {std::make_shared<Fd>(std::move(made->sockets[0]))};
  Serve(options);
  EXPECT_EQ(port(), made->port);
  EXPECT_NE(Ask(ChannelTo(*server_)), "");
  server_.reset();
  EXPECT_FALSE(Dial(made->port).valid()) << "the copy that is left takes nobody";

  auto reachable = ListenOnAll({"0.0.0.0"}, 0);
  ASSERT_TRUE(reachable.ok()) << reachable.status();
  options.listeners = {std::make_shared<Fd>(std::move(reachable->sockets[0]))};
  EXPECT_EQ(RpcServer::Start(options, {}).status().code(), StatusCode::kPermissionDenied);
}

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  CHECK_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  return address;
}

// Connects to the socket `path` as another user, in a child process. Returns the exit status of the
// child: 0 if the server closes the connection, 1 if not.
int DialAsNobody(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un address = UnixAddress(path);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) _exit(3);
    pollfd one{fd, POLLIN, 0};
    char byte;
    _exit(poll(&one, 1, 60'000) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(AcceptorTest, AUnixDomainSocketTakesItsOwnUserAlone) {
  const TempDir dir;
  const std::string path = dir.path() + "/socket";
  auto listener = std::make_shared<Fd>(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixAddress(path);
  ASSERT_EQ(bind(listener->get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener->get(), 8), 0);
  ServerOptions options;
  options.listeners = {listener};
  AdmissionLimits limits;
  limits.callers_prove = true;
  Serve(options, limits);
  EXPECT_EQ(Ask(grpc::CreateChannel("unix:" + path, grpc::InsecureChannelCredentials())), "unix:");
  EXPECT_EQ(admissions_->strangers(), 0u);
  if (geteuid() != 0) GTEST_SKIP() << "only root can try as another user";
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(path, std::filesystem::perms(0777));
  const Time start = SteadyNow();
  EXPECT_EQ(DialAsNobody(path), 0);
  EXPECT_LT(Seconds(SteadyNow() - start), 4.0) << "at once, not for its silence";
}

}  // namespace
}  // namespace tandem::rpc
