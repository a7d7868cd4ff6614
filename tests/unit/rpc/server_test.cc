#include "common/rpc/server.h"

#include <grpcpp/channel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "common/rpc/credentials/token.h"
#include "common/rpc/grpc_status.h"
#include "gmock/gmock.h"
#include "tests/support/when_logged.h"

namespace tandem::rpc {
namespace {

using testing::HasSubstr;

TEST(EndpointTest, ParsesAndPrints) {
  for (const char* text : {"127.0.0.1:0", "host-1:7000", "[::1]:80"}) {
    const StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    EXPECT_EQ(ToString(*endpoint), text);
  }
  for (const char* text :
       {"", "host", ":80", "host:", "host:x", "host:80x", "host:65536", "::1:80", "host:-1"}) {
    EXPECT_EQ(ParseEndpoint(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_TRUE(IsLoopback({"127.0.0.1", 1}) && IsLoopback({"::1", 1}));
  for (const char* host : {"0.0.0.0", "", "127.", "127.0.0.1.example.org", "10.127.0.1", "::"}) {
    EXPECT_FALSE(IsLoopback({host, 1})) << host;
  }
}

TEST(EndpointTest, AUnixSocketHasAPath) {
  const auto endpoint = ParseEndpoint("unix:/run/user/1000/tandem/pserver-0");
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_EQ(endpoint->path, "/run/user/1000/tandem/pserver-0");
  EXPECT_EQ(endpoint->host + std::to_string(endpoint->port), "0");
  EXPECT_EQ(ToString(*endpoint), "unix:/run/user/1000/tandem/pserver-0");
  EXPECT_TRUE(IsLoopback(*endpoint));
  const std::string longest = "unix:/" + std::string(kUnixPathMax - 1, 'x');
  EXPECT_TRUE(ParseEndpoint(longest).ok());
  const Status too_long = ParseEndpoint(longest + "x").status();
  EXPECT_EQ(too_long.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_long.message()), HasSubstr("has 108 bytes"));
  EXPECT_THAT(std::string(too_long.message()), HasSubstr("at most 107 bytes [TD6024]"));
  for (const char* text : {"unix:run/x", "unix:/", "unix:/x/", "unix:/a,b", "unix:/a\nb"}) {
    EXPECT_EQ(ParseEndpoint(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(ParseEndpoint("unix:7000")->host, "unix") << "a host of that name";
}

TEST(EndpointTest, LocalhostIsOneAddress) {
  EXPECT_EQ(NumericLocalhost("localhost"), "127.0.0.1");
  EXPECT_EQ(NumericLocalhost("::1"), "::1");
  EXPECT_EQ(NumericLocalhost("localhost.example.org"), "localhost.example.org");
}

TEST(RpcServerTest, TakenPortIsNamed) {
  auto first = RpcServer::Start({}, {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT((*first)->endpoint().port, 0);
  const auto second = RpcServer::Start({.listen = (*first)->endpoint()}, {});
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(ToString((*first)->endpoint()) + ": Address already in use"));
  EXPECT_EQ(ExitCodeOf(second.status()), kExitUnavailable);
}

TEST(RpcServerTest, WaitsForThePortOfAServerThatIsEnding) {
  auto first = RpcServer::Start({}, {});
  ASSERT_TRUE(first.ok()) << first.status();
  const Endpoint listen = (*first)->endpoint();
  const WhenLogged waits("is in use; waiting", [&first] { first->reset(); });
  const auto second = RpcServer::Start({.listen = listen, .patience = std::chrono::minutes(2)}, {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(waits.times(), 1);
}

TEST(RpcServerTest, NetworkAddressNeedsTlsOrLeave) {
  const auto refused = RpcServer::Start({.listen = {"0.0.0.0", 0}}, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(
      RpcServer::Start({.listen = {"0.0.0.0", 0}, .insecure_allow_network = true}, {}).ok());
}

TEST(RpcServerTest, BadTlsFilesAreNamed) {
  EXPECT_THAT(std::string(RpcServer::Start({.tls = {"/nowhere/c.pem", "/nowhere/k.pem", ""}}, {})
                              .status()
                              .message()),
              HasSubstr("/nowhere/"));
  EXPECT_EQ(RpcServer::Start({.tls = {"", "", "/nowhere/ca.pem"}}, {}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(MakeChannel({"127.0.0.1", 1}, {"", "", "/nowhere/ca.pem"}).ok());
}

TEST(GrpcStatusTest, CrossesTheWireUnchanged) {
  for (int code = 1; code <= 16; ++code) {
    const Status status(static_cast<StatusCode>(code), "why");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
  EXPECT_TRUE(FromGrpc(ToGrpc(OkStatus())).ok());
  EXPECT_LT(ToGrpc(Internal("%s", std::string(100000, 'x'))).error_message().size(), 4096u);
}

TEST(PrepareCallTest, RefusesCallsWithoutDeadline) {
  grpc::ClientContext a, b, c;
  EXPECT_EQ(PrepareCall(Time::max(), &a).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PrepareCall(SteadyNow(), &b).code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(PrepareCall(SteadyNow() + std::chrono::hours(1), &c).ok());
  EXPECT_LT(c.deadline(), std::chrono::system_clock::now() + std::chrono::hours(2));
}

TEST(TokenTest, SecretFileMustBePrivateAndLong) {
  std::string path = testing::TempDir() + "/secret_XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  close(fd);
  std::ofstream(path) << "0123456789abcdef\n";
  EXPECT_EQ(*ReadSecretFile(path), "0123456789abcdef");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(ReadSecretFile(path).status().code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  std::ofstream(path) << "short";
  EXPECT_EQ(ReadSecretFile(path).status().code(), StatusCode::kInvalidArgument);
  unlink(path.c_str());
  EXPECT_EQ(ReadSecretFile(path).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem::rpc
