// TLS as a user has it: whole jobs, and what is said when something does not fit.
#include <filesystem>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::Not;

class SecurityTest : public JobTest {
 protected:
  // `tandem certs ...`; the test fails when it does.
  void Certs(const std::string& verb, const std::vector<std::string>& args) {
    std::vector<std::string> all = {"certs", verb};
    all.insert(all.end(), args.begin(), args.end());
    ChildProcess certs("tandem", all, {}, Path("certs.out"));
    ASSERT_EQ(certs.Wait(), 0) << certs.Output();
  }
  // An authority in the test's folder and certificates of the job in authority/e2e/ROLE.
  std::string Authority(const std::string& name) {
    const std::string dir = Path(name);
    Certs("init", {dir});
    for (const char* role : {"pserver", "trainer", "observer"}) {
      Certs("issue", {dir, "--job=e2e", std::string("--role=") + role});
    }
    return dir + "/e2e";
  }
  std::unique_ptr<ChildProcess> Server(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"--listen=127.0.0.1:0", "--job=e2e", "--trainers=1"};
    args.insert(args.end(), more.begin(), more.end());
    auto server = std::make_unique<ChildProcess>(
        "tandem-pserver", args, std::map<std::string, std::string>{}, Path("server.out"));
    EXPECT_TRUE(server->WaitForText("listening on ")) << server->Output();
    return server;
  }
  static std::string AddressOf(const ChildProcess& server) {
    const std::string text = server.Output();
    const size_t at = text.find("listening on ") + 13;
    return text.substr(at, text.find('\n', at) - at);
  }
  // A trainer that has a minute to start and needs none of it to be refused.
  void ExpectRefused(const ChildProcess& server, const std::vector<std::string>& tls, int exit_code,
                     const std::string& said) {
    std::vector<std::string> args = {"--job_file=" + job_, "--mode=pserver", "--steps_max=2",
                                     "--pservers=" + AddressOf(server),
                                     "--start_timeout_ms=600000"};
    args.insert(args.end(), tls.begin(), tls.end());
    ChildProcess trainer("tandem-trainer", args, {}, Path("trainer.out"));
    EXPECT_EQ(trainer.Wait(), exit_code) << trainer.Output();
    EXPECT_THAT(trainer.Output(), HasSubstr(said));
  }
};

TEST_F(SecurityTest, TlsChangesNoBit) {
  const std::vector<std::string> servers = {"--servers=2", "--workers=2"};
  const auto run = [&](const std::string& name, const std::vector<std::string>& tls,
                       const std::string& transport) {
    std::vector<std::string> launch = servers;
    launch.insert(launch.end(), tls.begin(), tls.end());
    return RunJob(name, launch, {"--steps_max=60", "--pserver_transport=" + transport});
  };
  const JobRun plain = run("plain", {}, "grpc");
  const JobRun made = run("made", {"--tls"}, "grpc");
  const JobRun shm = run("shm", {"--tls"}, "auto");
  const JobRun given = run("given", {"--tls_dir=" + Authority("authority")}, "grpc");
  ASSERT_NE(plain.result.params_sha256, "");
  EXPECT_EQ(made.result.params_sha256, plain.result.params_sha256);
  EXPECT_EQ(shm.result.params_sha256, plain.result.params_sha256);
  EXPECT_EQ(given.result.params_sha256, plain.result.params_sha256);
  // Certificates that were made for a job end with it; those that were given stay.
  EXPECT_FALSE(std::filesystem::exists(Path("made.log/tls")));
  EXPECT_TRUE(std::filesystem::exists(Path("authority/e2e/trainer/tls.key")));
}

TEST_F(SecurityTest, WhoDidWhatIsNoted) {
  RunJob("audited", {"--servers=1", "--workers=2", "--tls", "--audit"}, {"--steps_max=20"});
  const std::string log = ReadWholeFile(Path("audited.log/audit.0.jsonl"));
  for (const char* part :
       {"\"call\":\"Configure\",\"caller\":\"spiffe://tandem/job/e2e/role/trainer\"",
        "\"call\":\"InitParams\"", "\"call\":\"OpenLane\"", "\"call\":\"Complete\"",
        "\"role\":\"trainer\",\"proof\":\"certificate\"", "\"outcome\":\"OK\""}) {
    EXPECT_THAT(log, HasSubstr(part));
  }
  EXPECT_THAT(log, Not(HasSubstr("\"role\":\"\"")));
}

TEST_F(SecurityTest, WhoDoesNotFitIsToldAtOnceWhatToDo) {
  const std::string ours = Authority("ours"), theirs = Authority("theirs");
  const auto server = Server({"--tls_dir=" + ours + "/pserver"});
  ExpectRefused(*server, {}, 78, "speaks TLS, and this client does not; hint: give tls_dir");
  ExpectRefused(*server, {"--tls_dir=" + theirs + "/trainer"}, 77,
                "is " + theirs + "/trainer/ca.crt the authority that issued it");
  ExpectRefused(
      *server,
      {"--tls_cert=" + theirs + "/trainer/tls.crt", "--tls_key=" + theirs + "/trainer/tls.key",
       "--tls_ca=" + ours + "/trainer/ca.crt"},
      77, "does not accept certificate " + theirs + "/trainer/tls.crt");
  ExpectRefused(*server, {"--tls_ca=" + ours + "/trainer/ca.crt"}, 77, "wants a certificate");
  ExpectRefused(
      *server, {"--tls_dir=" + ours + "/observer"}, 77,
      "Configure: the caller has role observer of job \"e2e\", and this needs role trainer");
  ExpectRefused(*server, {"--tls_dir=" + Path("nowhere")}, 2, "nowhere/ca.crt cannot be opened");
  EXPECT_THAT(server->Output(), HasSubstr("refused ipv4:127.0.0.1"));
  const auto plain = Server({});
  ExpectRefused(*plain, {"--tls_dir=" + ours + "/trainer"}, 78, "does not speak TLS");
}

// Pservers that are killed come back under TLS too, and the bits are those of a quiet run.
TEST_F(SecurityTest, AKilledPserverComesBack) {
  const std::vector<std::string> args = {"--steps_max=300", "--log_every_steps=1"};
  const JobRun quiet = RunJob("quiet", {"--servers=1", "--workers=2"}, args);
  const auto job = StartJob("killed",
                            {"--servers=1", "--workers=2", "--tls", "--max_restarts=3",
                             "--pserver_data_dir=" + Path("data")},
                            args);
  ASSERT_TRUE(job->WaitForText("step=20 ")) << job->Output();
  const auto servers = ChildrenOf(job->pid(), "tandem-pserver");
  ASSERT_EQ(servers.size(), 1u);
  ::kill(servers[0], SIGKILL);
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_EQ(ResultOf("killed").params_sha256, quiet.result.params_sha256);
}

TEST_F(SecurityTest, RanksMeetInTheClearOnlyWhenThatIsAllowed) {
  const std::map<std::string, std::string> rank = {{"TANDEM_RANK", "1"}, {"TANDEM_SIZE", "2"}};
  const std::string secret = Write("secret", "0123456789abcdef0123456789abcdef\n");
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  auto env = rank;
  env["TANDEM_SECRET_FILE"] = secret;
  std::vector<std::string> args = {"--job_file=" + job_, "--mode=collective",
                                   "--rendezvous=240.0.0.1:7000", "--start_timeout_ms=100"};
  ChildProcess refused("tandem-trainer", args, env, Path("refused.out"));
  EXPECT_EQ(refused.Wait(), 77);
  EXPECT_THAT(refused.Output(), HasSubstr("in the clear over the network"));
  args.push_back("--insecure_allow_network");
  ChildProcess allowed("tandem-trainer", args, env, Path("allowed.out"));
  EXPECT_NE(allowed.Wait(), 0);  // there is nobody at that address
  EXPECT_THAT(allowed.Output(), HasSubstr("warning: gradients go in the clear"));
  EXPECT_THAT(allowed.Output(), Not(HasSubstr("docs/threat-model.md")));
}

}  // namespace
}  // namespace tandem
