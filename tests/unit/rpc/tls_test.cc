// TLS on both sides, with certificates made here, and the health service.
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "common/base/mutex.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/server.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

// A certificate for 127.0.0.1 that signs itself, so that it is its own CA. Writes cert and key.
TlsFiles MakeCertificate(const std::string& dir, const std::string& name) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> cert(X509_new(), &X509_free);
  CHECK(key != nullptr && cert != nullptr);
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME* subject = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(cert.get(), subject);
  for (const auto& [nid, value] : {std::pair<int, const char*>{NID_basic_constraints, "CA:TRUE"},
                                   {NID_subject_alt_name, "IP:127.0.0.1"}}) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    X509_add_ext(cert.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }
  CHECK_GT(X509_sign(cert.get(), key.get(), EVP_sha256()), 0);
  const TlsFiles files{dir + "/" + name + ".crt", dir + "/" + name + ".key", ""};
  FILE* out = std::fopen(files.cert.c_str(), "w");
  PEM_write_X509(out, cert.get());
  std::fclose(out);
  out = std::fopen(files.key.c_str(), "w");
  PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(out);
  return files;
}

// What the health service says: the bytes of a HealthCheckResponse.
StatusOr<std::string> Health(const Endpoint& server, const TlsFiles& tls, Duration timeout) {
  TD_ASSIGN_OR_RETURN(const auto channel, MakeChannel(server, tls));
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(channel);
  grpc::ClientContext context;
  TD_RETURN_IF_ERROR(PrepareCall(SteadyNow() + timeout, "", &context));
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

class TlsTest : public testing::Test {
 protected:
  TlsTest() : dir_(testing::TempDir() + "/tls_XXXXXX") { CHECK(mkdtemp(dir_.data()) != nullptr); }
  ~TlsTest() override { std::filesystem::remove_all(dir_); }
  std::string dir_;
};

TEST_F(TlsTest, HealthFollowsServing) {
  auto server = RpcServer::Start({}, {});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto ask = [&] { return Health((*server)->endpoint(), {}, std::chrono::seconds(10)); };
  EXPECT_EQ(*ask(), "\x08\x02");  // NOT_SERVING
  (*server)->SetServing(true);
  EXPECT_EQ(*ask(), "\x08\x01");  // SERVING
  (*server)->SetServing(false);
  EXPECT_EQ(*ask(), "\x08\x02");
}

TEST_F(TlsTest, OnlyTheRightCertificateGetsIn) {
  const TlsFiles good = MakeCertificate(dir_, "good"), wrong = MakeCertificate(dir_, "wrong");
  ServerOptions options;
  options.tls = {good.cert, good.key, good.cert};
  auto server = RpcServer::Start(options, {});
  ASSERT_TRUE(server.ok()) << server.status();
  const Endpoint& at = (*server)->endpoint();
  EXPECT_TRUE(Health(at, {good.cert, good.key, good.cert}, std::chrono::seconds(10)).ok());
  const std::vector<TlsFiles> refused = {{wrong.cert, wrong.key, good.cert},  // unknown client
                                         {"", "", good.cert},                 // no certificate
                                         {good.cert, good.key, wrong.cert},   // unknown server
                                         {}};                                 // plaintext
  for (const TlsFiles& tls : refused) {
    EXPECT_FALSE(Health(at, tls, std::chrono::milliseconds(500)).ok());
  }
}

}  // namespace
}  // namespace tandem
