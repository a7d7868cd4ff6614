// Tests TLS as a user sees it: whole jobs, and the error messages for wrong certificates.
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::Not;

class SecurityTest : public JobTest {
 protected:
  // Runs `tandem certs ...`, which must succeed.
  void Certs(const std::string& verb, const std::vector<std::string>& args) {
    std::vector<std::string> all = {"certs", verb};
    all.insert(all.end(), args.begin(), args.end());
    ChildProcess certs("tandem", all, {}, Path("certs.out"));
    ASSERT_EQ(certs.Wait(), 0) << certs.Output();
  }
  // Makes an authority in the directory of the test. The authority issues certificates of the job
  // into name/e2e/ROLE. Returns the path of name/e2e.
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
  static rlim_t MostCore() {
    rlimit limit{};
    EXPECT_EQ(getrlimit(RLIMIT_CORE, &limit), 0);
    return limit.rlim_max;
  }
  // Returns a pattern for the line in /proc/PID/limits of a process that writes a core dump neither
  // to a file nor to a program.
  static std::string NoCore() {
    return "Max core file size +" + std::to_string(std::min<rlim_t>(1, MostCore())) + " +";
  }
  // Starts a trainer with a start timeout of 10 minutes. The server must nevertheless reject the
  // trainer at once.
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
  // Certificates that the launcher made for a job are removed at the end of the job. Certificates
  // of the user stay.
  EXPECT_FALSE(std::filesystem::exists(Path("made.log/tls")));
  EXPECT_TRUE(std::filesystem::exists(Path("authority/e2e/trainer/tls.key")));
}

// The ranks of collective mode encrypt their connections too.
TEST_F(SecurityTest, TlsBetweenRanksChangesNoBit) {
  const auto run = [&](const std::string& name, const std::vector<std::string>& tls) {
    std::vector<std::string> launch = {"--mode=collective", "--nproc=3"};
    launch.insert(launch.end(), tls.begin(), tls.end());
    return RunJob(name, launch, {"--steps_max=40", "--collective_transport=Tcp"});
  };
  const JobRun plain = run("plain", {});
  const JobRun made = run("made", {"--tls"});
  const JobRun given = run("given", {"--tls_dir=" + Authority("authority")});
  ASSERT_NE(plain.result.params_sha256, "") << plain.output;
  EXPECT_EQ(made.result.params_sha256, plain.result.params_sha256) << made.output;
  EXPECT_EQ(given.result.params_sha256, plain.result.params_sha256) << given.output;
  EXPECT_FALSE(std::filesystem::exists(Path("made.log/tls")));
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
  ExpectRefused(*server, {}, 78,
                "uses TLS, but this client does not [TD6003] (FAILED_PRECONDITION)\n"
                "hint: set tls_dir");
  ExpectRefused(*server, {"--tls_dir=" + theirs + "/trainer"}, 77,
                "check that " + theirs + "/trainer/ca.crt is the authority");
  ExpectRefused(
      *server,
      {"--tls_cert=" + theirs + "/trainer/tls.crt", "--tls_key=" + theirs + "/trainer/tls.key",
       "--tls_ca=" + ours + "/trainer/ca.crt"},
      77, "rejects certificate " + theirs + "/trainer/tls.crt");
  ExpectRefused(*server, {"--tls_ca=" + ours + "/trainer/ca.crt"}, 77, "requires a certificate");
  ExpectRefused(
      *server, {"--tls_dir=" + ours + "/observer"}, 77,
      "Configure: the caller has role observer of job \"e2e\", but the call needs role trainer");
  ExpectRefused(*server, {"--tls_dir=" + Path("nowhere")}, 2, "nowhere/ca.crt [TD6015]");
  EXPECT_THAT(server->Output(), HasSubstr("refused ipv4:127.0.0.1"));
  const auto plain = Server({});
  ExpectRefused(*plain, {"--tls_dir=" + ours + "/trainer"}, 78, "does not use TLS");
}

// The job's secret and the private keys must not be in any file, output or message except their own
// files.
TEST_F(SecurityTest, SecretsAreNowhereButInTheirFiles) {
  const std::string secret = "5ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4";
  const std::string file = Write("secret", secret + "\n"), pki = Authority("pki");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  std::map<std::string, std::string> secrets = {{"the secret", secret}};
  for (const std::string role : {"pserver", "trainer"}) {
    const std::string key = ReadWholeFile(absl::StrCat(pki, "/", role, "/tls.key"));
    // Takes 64 characters of the key's base64 text.
    secrets["the key of " + role] = key.substr(key.find('\n') + 1, 64);
  }
  int looked = 0;
  const auto look = [&](const std::string& where, const std::string& text) {
    for (const auto& [name, value] : secrets) {
      EXPECT_EQ(text.find(value), text.npos) << name << " is in " << where;
    }
    looked += text.empty() ? 0 : 1;
  };
  const int port = FreePort(4);
  const auto job = StartJob(
      "job",
      {"--servers=2", "--workers=2", "--tls_dir=" + pki, "--secret_file=" + file, "--audit",
       "--status_port=" + std::to_string(port), "--pserver_data_dir=" + Path("data")},
      {"--epochs=100000", "--log_every_steps=1", "--checkpoint.dir=" + Path("kept"),
       "--checkpoint.every_steps=20"});
  ASSERT_TRUE(job->WaitForText("step=50 ")) << job->Output();

  std::vector<pid_t> processes = {job->pid()};
  for (const char* program : {"tandem-trainer", "tandem-pserver"}) {
    const auto children = ChildrenOf(job->pid(), program);
    EXPECT_EQ(children.size(), 2u);
    processes.insert(processes.end(), children.begin(), children.end());
  }
  for (const pid_t pid : processes) {
    const std::string proc = "/proc/" + std::to_string(pid);
    look("arguments", ReadWholeFile(proc + "/cmdline"));
    look("the environment", ReadWholeFile(proc + "/environ"));
    EXPECT_THAT(ReadWholeFile(proc + "/limits"), testing::ContainsRegex(NoCore()))
        << "a core file has secrets";
  }
  for (int i = 0; i < 4; ++i) {
    for (const char* page : {"/", "/status.json", "/metrics"}) look(page, HttpGet(port + i, page));
  }
  for (const char* command : {"status", "vars", "events", "steps"}) {
    ChildProcess tandem("tandem", {command, Path("job.log")}, {}, Path("tandem.out"));
    EXPECT_EQ(tandem.Wait(), 0) << tandem.Output();
    look(std::string("tandem ") + command, tandem.Output());
  }
  EXPECT_EQ(looked, 5 * 2 + 4 * 3 + 4) << "all of them said something";
  job->Signal(SIGTERM);
  EXPECT_EQ(job->Wait(), 128 + SIGTERM) << job->Output();

  looked = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_)) {
    const std::string path = entry.path();
    const bool kept = path.starts_with(pki + "/") || path == file || path.ends_with("/ca.key");
    if (entry.is_regular_file() && !kept) look(path, ReadWholeFile(path));
  }
  EXPECT_GT(looked, 15) << "logs, checkpoints, update logs, audit, certificates";
  // Checks the search itself: it must find the secret in the secret's own file.
  EXPECT_NE(ReadWholeFile(file).find(secret), std::string::npos);
}

TEST_F(SecurityTest, CoresAreThereForWhoAsks) {
  if (MostCore() <= 1) GTEST_SKIP() << "no process here may leave a core file";
  const auto server = Server({"--core_dumps"});
  const std::string limits = ReadWholeFile("/proc/" + std::to_string(server->pid()) + "/limits");
  EXPECT_THAT(limits, Not(testing::ContainsRegex(NoCore())));
}

// Killed pservers recover also with TLS. The result has the bits of an undisturbed run.
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
  EXPECT_THAT(refused.Output(), HasSubstr("the connections between hosts are not encrypted"));
  args.push_back("--insecure_allow_network");
  ChildProcess allowed("tandem-trainer", args, env, Path("allowed.out"));
  EXPECT_NE(allowed.Wait(), 0);  // the trainer fails, because no server listens at that address
  EXPECT_THAT(allowed.Output(), HasSubstr(" exchange gradients without encryption"));
  EXPECT_THAT(allowed.Output(), Not(HasSubstr("docs/project/threat-model.md")));
  args.back() = "--tls_dir=" + Authority("pki") + "/trainer";
  ChildProcess encrypted("tandem-trainer", args, env, Path("encrypted.out"));
  EXPECT_NE(encrypted.Wait(), 0);  // no server listens at that address
  EXPECT_THAT(encrypted.Output(), HasSubstr("joining rank 0 at 240.0.0.1:7000"));
  EXPECT_THAT(encrypted.Output(), Not(HasSubstr("encrypt")));
}

}  // namespace
}  // namespace tandem
