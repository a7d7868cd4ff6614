// Tests the memory and time that connections of a stranger cost a server during the attacks of
// CVE-2023-33953 and CVE-2023-44487. The connections use no TLS, or the certificate of an observer.
#include <arpa/inet.h>
#include <grpcpp/channel.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

#include <fstream>
#include <sstream>

#include "common/rpc/admissions.h"
#include "common/rpc/channel.h"
#include "common/rpc/credentials/openssl_types.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/server.h"
#include "gtest/gtest.h"
#include "proto/pserver.grpc.pb.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tls_test_util.h"

namespace tandem::rpc {
namespace {

size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<size_t>(getpagesize());
}

std::string Frame(int type, int flags, uint32_t stream, const std::string& payload) {
  std::string frame;
  for (const uint32_t byte :
       {uint32_t(payload.size() >> 16), uint32_t(payload.size() >> 8), uint32_t(payload.size()),
        uint32_t(type), uint32_t(flags), stream >> 24, stream >> 16, stream >> 8, stream}) {
    frame += static_cast<char>(byte);
  }
  return frame + payload;
}

std::string Text(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

// Returns the HPACK bytes of a header whose value has the claimed length `length` in bytes.
std::string LongText(uint64_t length) {
  std::string text = std::string(1, '\0') + "\1a" + "\x7f";
  for (length -= 127; length >= 128; length >>= 7) text += static_cast<char>(length | 128);
  return text + static_cast<char>(length);
}

std::string RequestHeaders() {
  return Text(":method", "POST") + Text(":scheme", "http") +
         Text(":path", "/tandem.ParameterServer/GetStatus") + Text(":authority", "x") +
         Text("content-type", "application/grpc") + Text("te", "trailers");
}

// A client that sends raw bytes until the server closes the connection.
class Attacker {
 public:
  Attacker(int port, const TlsFiles* tls) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{20, 0};
    (void)setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    CHECK_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    if (tls != nullptr) {
      context_.reset(SSL_CTX_new(TLS_client_method()));
      SSL_CTX_use_certificate_chain_file(context_.get(), tls->cert.c_str());
      SSL_CTX_use_PrivateKey_file(context_.get(), tls->key.c_str(), SSL_FILETYPE_PEM);
      const unsigned char h2[] = {2, 'h', '2'};
      SSL_CTX_set_alpn_protos(context_.get(), h2, sizeof(h2));
      ssl_.reset(SSL_new(context_.get()));
      SSL_set_fd(ssl_.get(), fd_.get());
      CHECK_EQ(SSL_connect(ssl_.get()), 1);
    }
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "") + Frame(4, 1, 0, ""));
  }
  bool Send(const std::string& bytes) {
    char answer[65536];
    (void)recv(fd_.get(), answer, sizeof(answer), MSG_DONTWAIT);
    if (ssl_ != nullptr) {
      return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
    }
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  // Sends pieces until the server closes the connection or has accepted `max` megabytes. Returns
  // the accepted megabytes.
  size_t SendUntilEnded(const std::function<std::string()>& next, size_t max) {
    size_t sent = 0;
    while (sent < max << 20) {
      const std::string piece = next();
      if (!Send(piece)) break;
      sent += piece.size();
    }
    return sent >> 20;
  }

 private:
  Fd fd_;
  SslContextPtr context_;
  SslPtr ssl_;
};

class Greets final : public ParameterServer::Service {
  // A caller with metadata "proof" belongs to the job.
  grpc::Status GetStatus(grpc::ServerContext* context, const StatusRequest*,
                         StatusReply*) override {
    const auto& metadata = context->client_metadata();
    if (metadata.find("proof") == metadata.end()) {
      ++refused;
      return {grpc::StatusCode::UNAUTHENTICATED, "no"};
    }
    admissions->Prove(context->peer(), Standing::kTrusted);
    return grpc::Status::OK;
  }

 public:
  std::shared_ptr<Admissions> admissions;
  std::atomic<int> refused{0};
};

class FrameGuardTest : public testing::TestWithParam<bool> {
 protected:
  FrameGuardTest() {
    signal(SIGPIPE, SIG_IGN);
    InstallGrpcLog();
    ServerOptions options;
    if (GetParam()) {
      options.tls = authority_.Issue("j", PeerRole::kPserver);
      observer_ = authority_.Issue("j", PeerRole::kObserver);
      trainer_ = authority_.Issue("j", PeerRole::kTrainer);
    }
    AdmissionLimits limits;
    limits.callers_prove = true;
    greets_.admissions = options.admissions = std::make_shared<Admissions>(limits);
    auto server = RpcServer::Start(options, {&greets_});
    CHECK(server.ok()) << server.status();
    server_ = *std::move(server);
    auto channel = MakeChannel(server_->endpoint(), trainer_);
    CHECK(channel.ok()) << channel.status();
    channel_ = *std::move(channel);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(Answered());
    before_ = ResidentBytes();
  }
  bool Answered() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    context.set_wait_for_ready(true);
    context.AddMetadata("proof", "yes");
    StatusReply reply;
    return ParameterServer::NewStub(channel_)->GetStatus(&context, StatusRequest(), &reply).ok();
  }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // The limit is larger with sanitizers, because they keep freed memory and need shadow memory.
  static constexpr size_t kBytesMax = size_t{512} << 20;
#else
  static constexpr size_t kBytesMax = size_t{8} << 20;
#endif

  Attacker Attack() { return {server_->endpoint().port, GetParam() ? &observer_ : nullptr}; }
  void ExpectUnharmed() {
    EXPECT_TRUE(Answered());
    const size_t now = ResidentBytes();
    EXPECT_LT(now < before_ ? 0 : now - before_, kBytesMax) << "bytes more in memory";
  }

  const TempDir dir_;
  const TestAuthority authority_{dir_.path(), "ours"};
  TlsFiles observer_, trainer_;
  Greets greets_;
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  size_t before_ = 0;
};

TEST_P(FrameGuardTest, HeadersWithoutEnd) {
  Attacker attacker = Attack();
  std::string one = LongText(4'000) + std::string(4'000, 'x');
  attacker.Send(Frame(1, 0, 1, one));
  std::string many;
  for (int i = 0; i < 64; ++i) many += Frame(9, 0, 1, one);
  EXPECT_LT(attacker.SendUntilEnded([&] { return many; }, 100), 20u) << "MB were taken";
  ExpectUnharmed();
}

TEST_P(FrameGuardTest, OneEndlessHeader) {
  Attacker attacker = Attack();
  attacker.Send(Frame(1, 0, 1, LongText(uint64_t{2} << 30)));
  const std::string piece = Frame(9, 0, 1, std::string(16'000, 'x'));
  EXPECT_LT(attacker.SendUntilEnded([&] { return piece; }, 100), 20u) << "MB were taken";
  ExpectUnharmed();
}

TEST_P(FrameGuardTest, RapidReset) {
  Attacker attacker = Attack();
  const std::string headers = RequestHeaders();
  uint32_t stream = 1;
  const size_t taken = attacker.SendUntilEnded(
      [&] {
        std::string some;
        for (int i = 0; i < 20; ++i, stream += 2) {
          some += Frame(1, 4, stream, headers) + Frame(0, 1, stream, std::string(5, '\0')) +
                  Frame(3, 0, stream, std::string("\0\0\0\x8", 4));
        }
        return some;
      },
      100);
  EXPECT_LT(taken, 20u) << "MB were taken, most by the kernel";
  ExpectUnharmed();
}

// The budget belongs to the address of the caller, so a second connection from this address gets no
// new budget.
TEST_P(FrameGuardTest, CallsOfStrangers) {
  Attacker first = Attack(), second = Attack();
  const std::string headers = RequestHeaders();
  uint32_t stream = 1;
  const auto next = [&] {
    const std::string call = Frame(1, 4, stream, headers) + Frame(0, 1, stream, std::string(5, 0));
    stream += 2;
    return call;
  };
  EXPECT_LT(first.SendUntilEnded(next, 20), 19u) << "MB were taken, most by the kernel";
  stream = 1;
  EXPECT_LT(second.SendUntilEnded(next, 20), 19u) << "MB were taken, most by the kernel";
  EXPECT_LE(greets_.refused, 200);
  ExpectUnharmed();
}

TEST_P(FrameGuardTest, UnfinishedMessagesOfStrangers) {
  std::vector<std::unique_ptr<Attacker>> attackers;
  for (int i = 0; i < 16; ++i) attackers.push_back(std::make_unique<Attacker>(Attack()));
  const std::string piece = Frame(0, 0, 1, std::string(16'384, 'x'));
  for (const auto& attacker : attackers) {
    attacker->Send(Frame(1, 4, 1, RequestHeaders()));
    // The header of the message claims a length of 16 MiB.
    attacker->Send(Frame(0, 0, 1, std::string("\0\1\0\0\0", 5)));
  }
  for (int i = 0; i < 64; ++i) {
    for (const auto& attacker : attackers) (void)attacker->Send(piece);
  }
  ExpectUnharmed();
}

// The limits for strangers do not apply to a connection whose caller has proved itself.
TEST_P(FrameGuardTest, TheJobsCallersGoOn) {
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(Answered()) << i;
}

INSTANTIATE_TEST_SUITE_P(Roads, FrameGuardTest, testing::Values(false, true),
                         [](const auto& road) { return road.param ? "Tls" : "Plaintext"; });

}  // namespace
}  // namespace tandem::rpc
