// Tests the program tandem-pserver: flags, exit codes, signals.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/rpc/credentials/token.h"
#include "gmock/gmock.h"
#include "pserver/client/client.h"

extern char** environ;

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

// A running tandem-pserver. A pipe receives its standard output and its standard error.
class Process {
 public:
  Process(std::vector<std::string> args, std::vector<std::string> extra_env = {}) {
    const char* bin = std::getenv("TANDEM_BIN_DIR");
    args.insert(args.begin(), std::string(bin ? bin : "build/bin") + "/tandem-pserver");
    std::vector<char*> argv, env;
    for (std::string& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    for (char** e = environ; *e != nullptr; ++e) env.push_back(*e);
    for (std::string& e : extra_env) env.push_back(e.data());
    env.push_back(nullptr);
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    CHECK_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), env.data()), 0) << argv[0];
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    out_ = fdopen(ends[0], "r");
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    std::fclose(out_);
  }
  // Returns the next line of the output; "" at its end.
  std::string Line() {
    char line[4096];
    return std::fgets(line, sizeof(line), out_) ? line : "";
  }
  // Returns the lines up to and including the first line that contains `text`. If no line contains
  // `text`, returns all lines.
  std::string Until(const std::string& text) {
    std::string all;
    for (std::string line = Line(); !line.empty(); line = Line()) {
      all += line;
      if (line.find(text) != std::string::npos) break;
    }
    return all;
  }
  void Signal(int number) { kill(pid_, number); }
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Returns the address in the first line "listening on ...".
  std::string Endpoint() {
    const std::string text = Until("listening on ");
    const size_t at = text.find("listening on ");
    if (at == std::string::npos) return "";
    return text.substr(at + 13, text.find('\n', at) - at - 13);
  }

 private:
  pid_t pid_ = -1;
  FILE* out_ = nullptr;
};

TEST(PserverProcessTest, BadFlagsExitWithUsage) {
  struct Case {
    std::vector<std::string> args;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{"--lisen=127.0.0.1:0"}, "did you mean \"listen\""},
      {{"--threads=many"}, "expected a value of type int32"},
      {{"--listen=nowhere"}, "expected HOST:PORT"},
      {{"--threads=0"}, "0 threads"},
      {{"serve"}, "unexpected argument"},
      {{"--job"}, "--job needs a value"},
      {{"--checkpoint_every_steps=5"}, "no effect without --data_dir"},
  };
  for (const Case& c : cases) {
    Process process(c.args);
    EXPECT_THAT(process.Until(c.message), HasSubstr(c.message));
    EXPECT_EQ(process.Wait(), 2) << c.message;
  }
  Process help({"--help"});
  EXPECT_THAT(help.Until("--data_dir"), HasSubstr("--data_dir"));
  EXPECT_EQ(help.Wait(), 0);
}

TEST(PserverProcessTest, WhoAsksForTheVersionGetsNoServer) {
  Process version({"--version"});
  ASSERT_THAT(version.Line(), testing::MatchesRegex("tandem-pserver [0-9.]+\n"));
  EXPECT_EQ(version.Line(), "");
  EXPECT_EQ(version.Wait(), 0);
  Process help({"--helpshort"});  // --helpshort belongs to the library of flags
  EXPECT_THAT(help.Until("listening on "), testing::Not(HasSubstr("listening on ")));
}

TEST(PserverProcessTest, ATakenPortIsExit69) {
  Process first({"--listen=127.0.0.1:0"});
  const std::string endpoint = first.Endpoint();
  ASSERT_FALSE(endpoint.empty());
  Process second({"--listen=" + endpoint});
  EXPECT_THAT(second.Until("cannot listen"),
              HasSubstr("cannot listen on " + endpoint + ": Address already in use"));
  EXPECT_EQ(second.Wait(), 69);
  first.Signal(SIGINT);
  EXPECT_EQ(first.Wait(), 0);
}

TEST(PserverProcessTest, ANetworkAddressWithoutTlsIsExit77) {
  Process process({"--listen=0.0.0.0:0"});
  EXPECT_THAT(process.Until("hint: "),
              AllOf(HasSubstr("cannot listen on 0.0.0.0:0 without TLS"), HasSubstr("[TD6001]"),
                    HasSubstr("insecure_allow_network")));
  EXPECT_EQ(process.Wait(), 77);
  Process allowed({"--listen=0.0.0.0:0", "--insecure_allow_network"});
  EXPECT_THAT(allowed.Until("listening on 0.0.0.0"), HasSubstr("warning"));
}

TEST(PserverProcessTest, SigtermSavesAndTheNextStartRestores) {
  std::string dir = testing::TempDir() + "/pserver_process_XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  const std::string secret = dir + "/secret";
  std::ofstream(secret) << "0123456789abcdef0123456789abcdef\n";
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  const std::vector<std::string> env = {"TANDEM_SECRET_FILE=" + secret};
  const std::vector<std::string> args = {"--job=job", "--trainers=1", "--data_dir=" + dir};
  ps::PsOptions options;
  options.security.secret = "0123456789abcdef0123456789abcdef";
  std::vector<float> values = {1, 2, 3};
  {
    Process server(args, env);
    const std::string endpoint = server.Endpoint();
    auto client = ps::PsClient::Connect({endpoint}, options);
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE((*client)->Configure({{"w", Shape{3}}}, ps::PsMode::kSync, {}).ok());
    ASSERT_TRUE(
        (*client)->InitOrFetch(std::vector<ps::PsTensor>{{"w", values.data(), 3}}, 42).ok());
    server.Signal(SIGTERM);
    // A second signal within a short time, as timeout(1) sends it, belongs to the same request.
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0);
  }
  Process server(args, env);
  const std::string endpoint = server.Endpoint();
  EXPECT_THAT(server.Line(), HasSubstr("restored version 42"));
  auto client = ps::PsClient::Connect({endpoint}, options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Configure({{"w", Shape{3}}}, ps::PsMode::kSync, {})->restored);
  std::vector<float> got(3, 0.0f);
  EXPECT_EQ(*(*client)->InitOrFetch(std::vector<ps::PsTensor>{{"w", got.data(), 3}}), 42u);
  EXPECT_EQ(got, values);
  std::filesystem::remove_all(dir);
}

// The values, the WAL and RocksDB's own files contain parameters, so other users must not read
// them.
TEST(PserverProcessTest, NoFileOfAServerIsReadableByOthers) {
  std::string dir = testing::TempDir() + "/pserver_process_XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  const std::string data = dir + "/data";
  ASSERT_EQ(mkdir(data.c_str(), 0755), 0) << "made by a user, before";
  const mode_t before = umask(0);
  Process server({"--job=job", "--trainers=1", "--data_dir=" + data, "--durability=logged",
                  "--table_memory_mb=1", "--rocksdb_path=" + dir + "/cold"});
  umask(before);
  auto client = ps::PsClient::Connect({server.Endpoint()}, ps::PsOptions());
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->Configure({{"w", Shape{3}}}, ps::PsMode::kSync, {}).ok());
  std::vector<float> values = {1, 2, 3};
  ASSERT_TRUE((*client)->InitOrFetch(std::vector<ps::PsTensor>{{"w", values.data(), 3}}, 42).ok());
  client->reset();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (entry.path() == data) continue;
    ++files;
    const auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
    EXPECT_EQ(entry.status().permissions() & others, std::filesystem::perms::none) << entry.path();
  }
  EXPECT_GT(files, 8);
  std::filesystem::remove_all(dir);
}

TEST(PserverProcessTest, AFolderOfAnotherUserIsExit77) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
  std::string dir = testing::TempDir() + "/pserver_process_XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  ASSERT_EQ(chown(dir.c_str(), 65534, 65534), 0);
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--data_dir=" + dir},
        std::vector<std::string>{"--table_memory_mb=1", "--rocksdb_path=" + dir}}) {
    Process server(flags);
    EXPECT_THAT(server.Line(), HasSubstr("directory " + dir + " belongs to user "));
    server.Signal(SIGTERM);  // ends the process if it serves in spite of the error
    EXPECT_EQ(server.Wait(), 77);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir));
  std::filesystem::remove_all(dir);
}

// The message names the limit of open files. It does not say that the file is empty.
TEST(PserverProcessTest, TooFewDescriptorsForTheSecretAreNamed) {
  std::string dir = testing::TempDir() + "/pserver_process_XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  const std::string secret = dir + "/secret";
  std::ofstream(secret) << "0123456789abcdef0123456789abcdef\n";
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(STDERR_FILENO);  // the number of the lowest free descriptor
  close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status read = rpc::ReadSecretFile(secret).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(std::string(read.message()),
              HasSubstr(absl::StrFormat("secret file: %s: cannot be opened (Too many open files) "
                                        "[TD2114]: this process may open only %d files",
                                        secret, next)));
  EXPECT_EQ(ExitCodeOf(read), kExitIo);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace tandem::pserver
