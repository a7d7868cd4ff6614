// Tests mutual TLS: which peers a program accepts, the error messages about rejected peers, and the
// renewal of certificates while programs run.
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "absl/strings/escaping.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/credentials/tls_probe.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "tests/support/tls_test_util.h"

namespace tandem::rpc {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kServerUri = "spiffe://tandem/job/j/role/pserver";

// Calls the health service. Returns its reply, the bytes of a HealthCheckResponse.
StatusOr<std::string> Ask(const std::shared_ptr<grpc::Channel>& channel, Duration timeout) {
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(channel);
  grpc::ClientContext context;
  TD_RETURN_IF_ERROR(PrepareCall(SteadyNow() + timeout, &context));
  grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer reply;
  Mutex mu;
  CondVar cv;
  std::optional<grpc::Status> status;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &reply,
                 [&](grpc::Status s) {
                   MutexLock lock(mu);
                   status = s;
                   cv.NotifyAll();
                 });
  MutexLock lock(mu);
  const Time end = SteadyNow() + timeout + std::chrono::seconds(30);
  while (!status) CHECK(cv.WaitUntil(mu, end) || status);
  if (!status->ok()) return FromGrpc(*status);
  std::string bytes;
  const ReceivedMessage received(reply);
  for (const auto& piece : received.fragments()) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return bytes;
}

StatusOr<std::string> Health(const Endpoint& server, const TlsFiles& tls, Duration timeout,
                             const std::string& server_uri = "") {
  TD_ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(tls, server_uri));
  return Ask(MakeChannel(server, credentials), timeout);
}

constexpr Duration kLong = std::chrono::seconds(20), kShort = std::chrono::milliseconds(500);

class TlsTest : public testing::Test {
 protected:
  TlsTest() : dir_(testing::TempDir() + "/tls_XXXXXX") { CHECK(mkdtemp(dir_.data()) != nullptr); }
  ~TlsTest() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<RpcServer> Serve(const TlsFiles& tls) {
    ServerOptions options;
    options.tls = tls;
    auto server = RpcServer::Start(options, {});
    CHECK(server.ok()) << server.status();
    return *std::move(server);
  }

  std::string dir_;
};

TEST_F(TlsTest, HealthFollowsServing) {
  const auto server = Serve({});
  const auto ask = [&] { return Health(server->endpoint(), {}, kLong); };
  EXPECT_EQ(*ask(), "\x08\x02");  // the health service replies NOT_SERVING
  server->SetServing(true);
  EXPECT_EQ(*ask(), "\x08\x01");  // the health service replies SERVING
  server->SetServing(false);
  EXPECT_EQ(*ask(), "\x08\x02");
}

// The server must reject each connection with a wrong certificate, and ProbeConnection must report
// the cause.
TEST_F(TlsTest, OnlyTheRightCertificateGetsIn) {
  const TestAuthority ours(dir_ + "/ours", "ours"), theirs(dir_ + "/theirs", "theirs");
  const TlsFiles server_files = ours.Issue("j", PeerRole::kPserver);
  const TlsFiles client = ours.Issue("j", PeerRole::kTrainer);
  const TlsFiles stranger = theirs.Issue("j", PeerRole::kTrainer);
  const auto server = Serve(server_files);
  const Endpoint& at = server->endpoint();
  EXPECT_TRUE(Health(at, client, kLong, kServerUri).ok());
  EXPECT_EQ(ProbeConnection(at, client, kServerUri), OkStatus());

  struct Case {
    const char* name;
    TlsFiles tls;
    std::string uri;
    const char* said;
  };
  const std::vector<Case> cases = {
      {"another authority's certificate",
       {stranger.cert, stranger.key, client.ca},
       kServerUri,
       "rejects certificate"},
      {"no certificate",
       {"", "", client.ca},
       kServerUri,
       "requires a certificate, but this client has none [TD6007]"},
      {"plaintext", {}, "", "uses TLS, but this client does not [TD6003]; hint: set tls_dir"},
      {"the server is not trusted", stranger, kServerUri,
       "ca.crt is the authority of this pserver certificate"},
      {"a server of another job", client, "spiffe://tandem/job/other/role/pserver",
       "expected spiffe://tandem/job/other/role/pserver"},
  };
  for (const Case& c : cases) {
    EXPECT_FALSE(Health(at, c.tls, kShort, c.uri).ok()) << c.name;
    const Status why = ProbeConnection(at, c.tls, c.uri);
    EXPECT_NE(why.code(), StatusCode::kUnavailable) << c.name;
    EXPECT_THAT(std::string(why.message()), HasSubstr(c.said)) << c.name;
  }
  // The client uses TLS, the server does not.
  const auto plain = Serve({});
  EXPECT_FALSE(Health(plain->endpoint(), client, kShort).ok());
  EXPECT_THAT(std::string(ProbeConnection(plain->endpoint(), client, kServerUri).message()),
              HasSubstr("does not use TLS, but this client does"));
  EXPECT_EQ(ProbeConnection(plain->endpoint(), {}, ""), OkStatus());
  const Endpoint nobody{"127.0.0.1", 1};
  EXPECT_EQ(ProbeConnection(nobody, client, "").code(), StatusCode::kUnavailable);
}

TEST_F(TlsTest, AServerMustHaveTheNameThatWasDialledAndBeAServer) {
  const TestAuthority ours(dir_, "ours");
  const TlsFiles client = ours.Issue("j", PeerRole::kTrainer);
  const auto elsewhere =
      Serve(ours.Issue("elsewhere", {{"j", PeerRole::kPserver}, {"10.1.2.3", "host-1"}}));
  EXPECT_FALSE(Health(elsewhere->endpoint(), client, kShort).ok());
  EXPECT_THAT(std::string(ProbeConnection(elsewhere->endpoint(), client, "").message()),
              HasSubstr("is for 10.1.2.3, host-1, not for 127.0.0.1 [TD6006]"));
  // A client must not accept the certificate of a trainer from a server, even with the right host
  // name.
  const auto trainer = Serve(ours.Issue("impostor", {{"j", PeerRole::kTrainer}, {"127.0.0.1"}}));
  EXPECT_FALSE(Health(trainer->endpoint(), client, kShort).ok());
  EXPECT_THAT(std::string(ProbeConnection(trainer->endpoint(), client, "").message()),
              HasSubstr("is the authority of this pserver certificate"));
}

TEST_F(TlsTest, ExpiredCertificatesAreRefusedOnBothSides) {
  const TestAuthority ours(dir_, "ours");
  const TlsFiles client = ours.Issue("j", PeerRole::kTrainer);
  const TlsFiles old = ours.IssueExpired("old", "j", PeerRole::kTrainer);
  const auto server = Serve(ours.Issue("j", PeerRole::kPserver));
  const Endpoint& at = server->endpoint();
  // A client whose own certificate has expired gets an error before it connects.
  const auto own = Health(at, old, kShort);
  EXPECT_EQ(own.status().code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(own.status().message()),
              AllOf(HasSubstr("old/tls.crt: certificate \""), HasSubstr("\" expired on ")));
  // If a client connects with an expired certificate nevertheless, the server must reject the
  // connection.
  grpc::SslCredentialsOptions raw{*ReadPem(old.ca), *ReadPem(old.key), *ReadPem(old.cert)};
  EXPECT_FALSE(Ask(grpc::CreateChannel(ToString(at), grpc::SslCredentials(raw)), kShort).ok());
  raw = {*ReadPem(client.ca), *ReadPem(client.key), *ReadPem(client.cert)};
  EXPECT_TRUE(Ask(grpc::CreateChannel(ToString(at), grpc::SslCredentials(raw)), kLong).ok());
  // A server does not start with an expired certificate. Clients reject a running server whose
  // certificate has expired.
  ServerOptions options;
  options.tls = ours.IssueExpired("old-server", "j", PeerRole::kPserver);
  EXPECT_THAT(std::string(RpcServer::Start(options, {}).status().message()),
              AllOf(HasSubstr("expired on "), HasSubstr("[TD6008]")));
  (void)ours.IssueExpired("j-pserver", "j", PeerRole::kPserver);
  const Time end = SteadyNow() + std::chrono::seconds(30);
  Status why;
  while (why.ok() && SteadyNow() < end) why = ProbeConnection(at, client, kServerUri);
  EXPECT_THAT(std::string(why.message()),
              HasSubstr("certificate has expired [TD6005]; hint: check the clock of this machine"));
}

// Replaces the certificates and their authority while a server and a client run.
TEST_F(TlsTest, RenewedFilesAreTakenUpWithoutARestart) {
  const TestAuthority before(dir_, "before"), after(dir_, "after");
  const TlsFiles server_files = before.Issue("j", PeerRole::kPserver);
  const TlsFiles client = before.Issue("j", PeerRole::kTrainer);
  const auto server = Serve(server_files);
  const auto credentials = MakeCredentials(client, kServerUri);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  ASSERT_TRUE(Ask(MakeChannel(server->endpoint(), *credentials), kLong).ok());
  const auto old_channel = MakeChannel(server->endpoint(), *credentials);
  ASSERT_TRUE(Ask(old_channel, kLong).ok());

  (void)after.Issue("j", PeerRole::kPserver);
  (void)after.Issue("j", PeerRole::kTrainer);
  EXPECT_TRUE(Ask(MakeChannel(server->endpoint(), *credentials), kLong).ok());
  EXPECT_TRUE(Ask(old_channel, kLong).ok()) << "connections that are there stay";
  const TlsFiles latecomer = before.Issue("late", {{"j", PeerRole::kTrainer}, {}});
  EXPECT_FALSE(Health(server->endpoint(), {latecomer.cert, latecomer.key, client.ca}, kShort).ok());
}

TEST_F(TlsTest, FilesAreCheckedBeforeTheyAreUsed) {
  const TestAuthority ours(dir_, "ours");
  const TlsFiles good = ours.Issue("j", PeerRole::kTrainer);
  const TlsFiles other = ours.Issue("j", PeerRole::kAdmin);
  EXPECT_EQ(**CheckTlsFiles(good), (PeerIdentity{"j", PeerRole::kTrainer}));
  EXPECT_FALSE(CheckTlsFiles({})->has_value());
  const auto said = [](const TlsFiles& files) {
    return std::string(CheckTlsFiles(files).status().message());
  };
  EXPECT_THAT(said({good.cert, other.key, good.ca}), HasSubstr("does not belong to certificate"));
  EXPECT_THAT(said({good.cert, good.key, good.key}), HasSubstr("contains no certificate"));
  EXPECT_THAT(said({good.cert, "", good.ca}), HasSubstr("only one of tls_cert and tls_key"));
  EXPECT_THAT(said({"/nowhere/tls.crt", good.key, good.ca}), HasSubstr("/nowhere/tls.crt"));
  ASSERT_EQ(chmod(good.key.c_str(), 0644), 0);
  EXPECT_THAT(said(good), HasSubstr("(mode 644) [TD6012]; hint: run chmod 600"));
  ASSERT_EQ(chmod(good.key.c_str(), 0600), 0);
  ASSERT_EQ(chmod(good.ca.c_str(), 0646), 0);
  EXPECT_THAT(said(good), HasSubstr("ca.crt (mode 646) [TD2113]"));
  EXPECT_EQ(ChooseTlsFiles(dir_, good).status().code(), StatusCode::kInvalidArgument);

  const auto role = RequireIdentity(other, PeerRole::kPserver, "k");
  EXPECT_EQ(role.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(
      std::string(role.status().message()),
      HasSubstr("is for role admin of job \"j\", but this process is a pserver of job \"k\""));
}

// Returns the certificate with other bytes in place of its first date. This makes its signature
// invalid.
std::string WithoutADate(const std::string& pem) {
  const std::string begin = "-----BEGIN CERTIFICATE-----\n", end = "-----END CERTIFICATE-----\n";
  std::string der;
  CHECK(absl::Base64Unescape(pem.substr(begin.size(), pem.find(end) - begin.size()), &der));
  const size_t date = der.find("\x17\x0d");  // tag and length of a UTCTime of 13 characters
  CHECK_NE(date, der.npos);
  der.replace(date + 2, 13, "no date today");
  std::string text = absl::Base64Escape(der);
  for (size_t at = 64; at < text.size(); at += 65) text.insert(at, "\n");
  return begin + text + "\n" + end;
}

TEST_F(TlsTest, ACertificateWithoutADateIsRefused) {
  const auto authority = MakeAuthority("ours", 1);
  ASSERT_TRUE(authority.ok()) << authority.status();
  const auto facts = ReadCertificate(WithoutADate(authority->cert));
  EXPECT_EQ(facts.status().code(), StatusCode::kInvalidArgument) << facts.status();
  EXPECT_THAT(std::string(facts.status().message()),
              HasSubstr("field notBefore of the certificate is not a valid date [TD6029]"));
}

TEST_F(TlsTest, IssuedCertificatesSayWhatWasAsked) {
  const auto authority = MakeAuthority("ours", 1);
  ASSERT_TRUE(authority.ok()) << authority.status();
  EXPECT_TRUE(ReadCertificate(authority->cert)->authority);
  const LeafRequest request{{"j", PeerRole::kPserver}, {"host-1", "10.0.0.1", "::1"}, 30};
  const auto leaf = IssueCertificate(*authority, request);
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  const auto facts = ReadCertificate(leaf->cert);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->identity, request.identity);
  EXPECT_THAT(facts->hosts, ElementsAre("host-1", "10.0.0.1", "::1"));
  EXPECT_FALSE(facts->authority);
  EXPECT_LE(facts->not_after, ReadCertificate(authority->cert)->not_after) << "not a day longer";
  EXPECT_EQ(CheckKey(leaf->cert, leaf->key), OkStatus());
  EXPECT_EQ(CheckIssuer(leaf->cert, authority->cert), OkStatus());
  EXPECT_FALSE(CheckIssuer(leaf->cert, MakeAuthority("ours", 1)->cert).ok()) << "same name";
  // A leaf certificate must not issue certificates. The fields of a request must not add
  // extensions.
  EXPECT_FALSE(IssueCertificate(*leaf, request).ok());
  for (const char* host : {"", "a,URI:spiffe://tandem/job/j/role/admin", "a b", "a\nb"}) {
    EXPECT_FALSE(IssueCertificate(*authority, {{"j", PeerRole::kPserver}, {host}}).ok()) << host;
  }
  for (const char* job : {"", "..", "a/b", "a,b", "a b"}) {
    EXPECT_FALSE(IssueCertificate(*authority, {{job, PeerRole::kTrainer}, {}}).ok()) << job;
  }
}

TEST(PeerIdentityTest, IsReadBackAndNothingElseIs) {
  for (const PeerRole role : kPeerRoles) {
    const PeerIdentity identity{"job-1.x_y", role};
    EXPECT_EQ(*ParseIdentity(ToUri(identity)), identity);
  }
  for (const char* uri :
       {"", "spiffe://tandem", "spiffe://other/job/j/role/admin", "spiffe://tandem/job/j/role/root",
        "spiffe://tandem/job/j/role/admin/", "spiffe://tandem/job//role/admin",
        "spiffe://tandem/job/../role/admin", "SPIFFE://tandem/job/j/role/admin",
        "spiffe://tandem/job/j/role/admin ", "https://tandem/job/j/role/admin"}) {
    EXPECT_FALSE(ParseIdentity(uri).ok()) << uri;
  }
  EXPECT_THAT(std::string(ParsePeerRole("triner").status().message()), HasSubstr("\"trainer\""));
}

}  // namespace
}  // namespace tandem::rpc
