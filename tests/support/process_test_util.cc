#include "tests/support/process_test_util.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/os/ports.h"

extern char** environ;

namespace tandem {
namespace {

// Returns whether an environment entry may tell a trainer its rank (trainer/config/rank_env.h).
// Child processes inherit no such entry: only the test sets them.
bool SpeaksOfRanks(const std::string& entry) {
  for (const char* prefix : {"RANK=",
                             "WORLD_SIZE=",
                             "LOCAL_",
                             "MASTER_",
                             "PADDLE_",
                             "OMPI_",
                             "SLURM_",
                             "TRAINING_ROLE=",
                             "POD_IP=",
                             "TANDEM_RANK",
                             "TANDEM_SIZE",
                             "TANDEM_LOCAL",
                             "TANDEM_PSERVERS",
                             "TANDEM_RENDEZVOUS",
                             "TANDEM_LISTEN_HOST",
                             "TANDEM_SECRET_FILE",
                             "TANDEM_ROLE",
                             "TANDEM_JOB",
                             "TANDEM_HETER_WORKERS",
                             "TANDEM_ETCD"}) {
    if (entry.starts_with(prefix)) return true;
  }
  return false;
}

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

}  // namespace

std::string BinPath(const std::string& program) {
  if (program.starts_with('/')) return program;
  const char* bin = std::getenv("TANDEM_BIN_DIR");
  return std::string(bin != nullptr ? bin : "build/bin") + "/" + program;
}

ChildProcess::ChildProcess(const std::string& program, const std::vector<std::string>& args,
                           const std::map<std::string, std::string>& env, std::string output_file)
    : output_file_(std::move(output_file)) {
  std::vector<std::string> words = {BinPath(program)};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!SpeaksOfRanks(*entry)) entries.emplace_back(*entry);
  }
  for (const auto& [name, value] : env) entries.emplace_back(name).append("=").append(value);
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : entries) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output_file_.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int error = posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  CHECK_EQ(error, 0) << argv[0] << ": " << ErrnoText(error);
}

ChildProcess::~ChildProcess() {
  if (ended_) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::Signal(int number) const {
  if (ended_) return;
  kill(pid_, number);
  if (number != SIGSTOP) return;
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT);
}

bool ChildProcess::Ended() {
  int status = 0;
  if (!ended_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_ = true;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return ended_;
}

int ChildProcess::Wait(int seconds_max) {
  if (WaitUntil([this] { return Ended(); }, seconds_max)) return exit_code_;
  ADD_FAILURE() << "still running after " << seconds_max << " s; it wrote:\n" << Output();
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  ended_ = true;
  return exit_code_;
}

std::string ChildProcess::Output() const { return ReadWholeFile(output_file_); }

bool ChildProcess::WaitForText(const std::string& text, int seconds_max) {
  bool found = false;
  WaitUntil(
      [&] {
        // The end of the process is checked before the read, so that the read includes the last
        // output.
        const bool ended = Ended();
        found = Output().find(text) != std::string::npos;
        return found || ended;
      },
      seconds_max);
  return found;
}

bool WaitUntil(const std::function<bool()>& done, int seconds_max) {
  const Time deadline = SteadyNow() + std::chrono::seconds(seconds_max);
  while (!done()) {
    if (SteadyNow() > deadline) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

namespace {

// Connects to 127.0.0.1:`port`, sends `bytes` and reads until the peer closes the connection or
// `limit` has passed. Returns the received bytes; nullopt if no server listens.
std::optional<std::string> Exchange(int port, const std::string& bytes, Duration limit) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  std::string all;
  if (connected) {
    send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    const Time deadline = SteadyNow() + limit;
    char answer[4096];
    pollfd readable = {fd, POLLIN, 0};
    while (SteadyNow() < deadline && poll(&readable, 1, 100) >= 0) {
      if (readable.revents == 0) continue;
      const ssize_t got = recv(fd, answer, sizeof(answer), 0);
      if (got <= 0) break;
      all.append(answer, static_cast<size_t>(got));
    }
  }
  close(fd);
  return connected ? std::optional(all) : std::nullopt;
}

}  // namespace

bool SendBytes(int port, const std::string& bytes) {
  return Exchange(port, bytes, std::chrono::seconds(1)).has_value();
}

int FreePort(int count) {
  // Other test programs do not find a reserved port, and servers bind it with SO_REUSEADDR.
  static Mutex mu;
  static auto* const reserved = new std::vector<ReservedPorts>;
  auto ports = ReservePorts("127.0.0.1", count);
  CHECK(ports.ok()) << ports.status();
  MutexLock lock(mu);
  reserved->push_back(*std::move(ports));
  return reserved->back().first;
}

std::string HttpGet(int port, const std::string& path) {
  const std::string answer = Exchange(port, "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n",
                                      std::chrono::seconds(10))
                                 .value_or("");
  const size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? "" : answer.substr(body + 4);
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // if the process ends while its file is read, returns the text read so far
  return text.str();
}

std::string FashionMnistDir() {
  const std::string plain = BinPath("../tests/fashion-mnist");
  std::error_code error;
  const auto path = std::filesystem::canonical(plain, error);
  return error ? kFashionMnist : path.string();
}

void JobTest::SetUp() {
  if (!std::filesystem::exists(kFashionMnist)) {
    GTEST_SKIP() << kFashionMnist << " is absent: install Debian's package dataset-fashion-mnist";
  }
  std::string name = std::filesystem::temp_directory_path().string() + "/tandem_e2e_XXXXXX";
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  dir_ = name;
  job_ = Write("job.pbtxt", std::string("name: \"e2e\"\nmodel { zoo: \"lenet\" }\n"
                                        "data { dir: \"") +
                                FashionMnistDir() +
                                "\" }\n"
                                "optimizer { type: \"momentum\" learning_rate: 0.01 }\n"
                                "global_batch_size: 128\nseed: 1\n"
                                "eval_every_epochs: 0\nlog_every_steps: 10\n");
}

// Removes the directory of the test. Tries again for two seconds, because processes that were just
// killed may still change files in the directory.
void JobTest::TearDown() {
  constexpr int kTries = 100;
  std::error_code error;
  for (int i = 0; i < kTries && !dir_.empty(); ++i) {
    std::filesystem::remove_all(dir_, error);
    if (!error) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(error) << dir_ << ": " << error.message();
}

std::string JobTest::Write(const std::string& name, const std::string& text) const {
  std::ofstream(Path(name), std::ios::binary) << text;
  return Path(name);
}

std::vector<pid_t> JobTest::ChildrenOf(pid_t parent, const std::string& program) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = ReadWholeFile("/proc/" + pid + "/stat");
    const size_t end = stat.rfind(')');
    if (end == std::string::npos || std::stoi(stat.substr(end + 4)) != parent) continue;
    const std::string command = ReadWholeFile("/proc/" + pid + "/cmdline");
    if (command.substr(0, command.find('\0')).ends_with("/" + program)) {
      found.push_back(std::stoi(pid));
    }
  }
  return found;
}

pid_t JobTest::TrainerOf(const ChildProcess& launcher, int rank) {
  const std::string name = '\0' + std::string("PADDLE_TRAINER_ID=") + std::to_string(rank) + '\0';
  for (const pid_t pid : ChildrenOf(launcher.pid(), "tandem-trainer")) {
    const std::string environment = ReadWholeFile("/proc/" + std::to_string(pid) + "/environ");
    if (environment.find(name) != std::string::npos) return pid;
  }
  return 0;
}

int JobTest::StepOf(const ChildProcess& launcher) {
  const std::string output = launcher.Output();
  const size_t at = output.rfind("\nstep=");
  return at == std::string::npos ? 0 : std::atoi(output.c_str() + at + 6);
}

int JobTest::FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

std::unique_ptr<ChildProcess> JobTest::StartJob(const std::string& name,
                                                const std::vector<std::string>& launch,
                                                const std::vector<std::string>& args) const {
  std::vector<std::string> all = launch;
  all.push_back("--log_dir=" + Path(name + ".log"));
  all.push_back(job_);
  all.push_back("--");
  all.insert(all.end(), args.begin(), args.end());
  all.push_back("--result_json=" + Path(name + ".json"));
  return std::make_unique<ChildProcess>("tandemrun", all, std::map<std::string, std::string>{},
                                        Path(name + ".out"));
}

JobRun JobTest::RunJob(const std::string& name, const std::vector<std::string>& launch,
                       const std::vector<std::string>& args) const {
  const auto job = StartJob(name, launch, args);
  JobRun run;
  run.exit_code = job->Wait();
  run.output = job->Output();
  EXPECT_EQ(run.exit_code, 0) << run.output;
  if (run.exit_code == 0) run.result = ResultOf(name);
  return run;
}

JobResult JobTest::ResultOf(const std::string& name) const {
  const auto json =
      nlohmann::json::parse(ReadWholeFile(Path(name + ".json")), nullptr, /*exceptions=*/false);
  JobResult result;
  if (!json.is_object()) {
    ADD_FAILURE() << name << " left no result";
    return result;
  }
  result.accuracy = json.value("accuracy", 0.0);
  result.auc = json.value("auc", 0.0);
  result.loss = json.value("loss", 0.0);
  result.steps = json.value("steps", int64_t{0});
  result.params_sha256 = json.value("params_sha256", "");
  result.counts = json.value("counts", result.counts);
  return result;
}

}  // namespace tandem
