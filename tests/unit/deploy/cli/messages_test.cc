// Checks that every reachable message of the command line reads as in the transcripts
// tests/messages/*.txt. In a transcript, a command follows " $ " (continued after " > "). Below it
// are the output of the command and, unless it is 0, the exit code in brackets. Lines with another
// beginning are remarks. TANDEM_UPDATE=1 rewrites the transcripts: review the changes before a
// commit.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "deploy/cli/errors/explain.h"
#include "gmock/gmock.h"

namespace tandem::deploy {
namespace {

constexpr char kGoodJob[] = R"(name: "good"
model { zoo: "lenet" arg { name: "channels" value: "6,16" } }
data {
  format: "synthetic"
  synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 64 }
}
optimizer { type: "sgd" learning_rate: 0.1 }
global_batch_size: 8
eval_every_epochs: 0
)";

// Source files whose messages a command of a transcript must reach. The exceptions are listed in
// Elsewhere().
constexpr const char* kCovered[] = {
    "deploy/cli",         "deploy/launch",           "common/strategy",         "pserver/main.cc",
    "pserver/pserver.cc", "pserver/server_front.cc", "pserver/server_parts.cc", "trainer/main.cc"};

// The messages that no quick command reaches, each with the reason or the test that reaches it.
const std::map<std::string, std::string>& Elsewhere() {
  static const char* const kKernel =
      "a call of the system that fails only when it has nothing left";
  static const char* const kRace = "between two looks of the demo, when the job ends there";
  static const char* const kLauncher =
      "a tandemrun that was killed, or is another user's; "
      "job_record_test";
  static const char* const kHosts =
      "tandemruns of several hosts; host_group_test, launch_hosts_test";
  static const char* const kStandbys = "a running job with standbys; e2e_promote_test";
  static const char* const kScale = "a running job; e2e_scale_test";
  static const char* const kServers = "a running job with tables; e2e_rebalance_test has some";
  static const std::map<std::string, std::string> rows = {
      {"the leading host did not send the members of the job [TD3016]", kHosts},
      {"another tandemrun sent a message of %d bytes that is not valid", kHosts},
      {"%s has the pservers' data of host %d of an earlier run, but the job has this host "
       "[TD3015]; "
       "hint: stop the tandemrun of the other host with these data",
       kHosts},
      {"a lost host at %s has pservers, so the host that replaces it needs the same address, but "
       "%s "
       "has another one [TD3015]; hint: run tandemrun on a host with this address, or give the "
       "address to this host and set --listen_host=%s",
       kHosts},
      {"a job with standbys needs the IPv4 address of each host, but %s has --listen_host=%s "
       "[TD1009]; hint: set --listen_host to the IPv4 address of the host",
       kHosts},
      {"%d of %d hosts did not join at %s within %.0f s [TD3002]; hint: run the same command on "
       "each host; joined are %s",
       kHosts},
      {"%s has no address: %s", kHosts},
      {"%s has version %s of Tandem, and the leading host has %s [TD3013]; hint: install the same "
       "version of Tandem on all hosts",
       kHosts},
      {"%s runs tandemrun with %s [TD3015]; hint: run the same command on each host", kHosts},
      {"no tandemrun leads the job at %s within %.0f s (%s) [TD3002]; hint: run the same command "
       "on each host, also on the one that --rendezvous names",
       kHosts},
      {"the job has all its %d hosts [TD3008]; hint: stop the other tandemrun, or use another "
       "rendezvous",
       kHosts},
      {"the leading tandemrun sent a list of %d hosts, expected %d", kHosts},
      {"it does not know the secret of this job [TD6014]", kHosts},
      {"there is no role \"%s\"", "a leading tandemrun of another version"},
      {"it has another secret, belongs to another job, or is no tandemrun (%s) [TD6014]; hint: "
       "give all hosts a copy of one secret file and the same job file",
       kHosts},
      {"its tandemrun has closed the connection", kHosts},
      {"it has not proved within %.1f s that it is a tandemrun of this job", kHosts},
      {"its tandemrun has sent nothing for %.1f s", kHosts},
      {"its tandemrun reads no messages", kHosts},
      {"its tandemrun sent a message of %d bytes", kHosts},
      {"messages of its tandemrun were altered on the network (%s) [TD6025]", kHosts},
      {"the connection to its tandemrun broke: %s", kHosts},
      {"%s is not running", kRace},
      {"the job ended before the demo killed a process", kRace},
      {"the job did not complete a step in time", kRace},
      {"cannot kill pserver %d (pid %d): %s", kRace},
      {"pserver %d did not restart in time", kRace},
      {"the demo failed to kill and recover a pserver: %s", kRace},
      {"the demo cannot read the progress of the job, because its trainers have no status page",
       "the demo always asks for one"},
      {"log %s lacks the last version of the server, or the number of its repeated pushes",
       "cli_test"},
      {"%s is not a JSON object with accuracy, images_per_s, seconds, steps and params_sha256",
       "cli_test"},
      {"the trainer wrote no result file %s", "cli_test"},
      {"--only: knob %s is not implemented [TD1109]",
       "all knobs are built; the next one is not, at first"},
      {"%s is not a result file of a trainer: %s", "a trainer of another version"},
      {"the measurement was stopped by a signal", "minutes of measuring; knob_bench_test"},
      {"the job %s failed with exit code %d (see its output above)",
       "minutes of measuring; knob_bench_test"},
      {"pserver %d has %d slices of dense variables that cannot move, because an older version of "
       "Tandem wrote them [TD1109]; hint: save the job, and start the job again with other servers",
       "trainers of another version"},
      {"pserver %d received %d partitions during its drain, probably from tandem rebalance --add; "
       "hint: drain this pserver again",
       "another command about the same pserver at the same moment"},
      {"pserver %d cannot be drained, because this pserver is the last one that is not drained "
       "[TD1005]; hint: add another pserver with tandem rebalance --add=HOST:PORT",
       kServers},
      {"pserver 0 cannot be drained, because pserver 0 also serves the barriers of the trainers "
       "[TD1005]; "
       "hint: drain another pserver",
       kServers},
      {"the pservers were not restored: sync mode needs checkpoints of one version, but the "
       "pservers have checkpoints of versions %s [TD7012]; hint: run tandem save while no trainer "
       "pushes, or start the pservers "
       "with --checkpoint_every_steps",
       "two servers and a client; python_pserver_faults_test"},
      {"cannot start dot: %s [TD7009]", kKernel},
      {"--status_port: 127.0.0.1:%d, the port of the status page of %s, is in use [TD1012]; hint: "
       "choose another --status_port",
       "launch_line_test"},
      {"--resp_port: 127.0.0.1:%d, the port of %s for Redis clients, is in use [TD1012]; hint: "
       "choose another --resp_port",
       "launch_line_test"},
      {"tandemrun (pid %d) of job %s is not running [TD7003]", kLauncher},
      {"process %d was not signalled: the process belongs to user %d, expected user %d (job.json "
       "of job %s names this process) [TD6028]; hint: run the command as the user who started the "
       "job",
       kLauncher},
      {"cannot signal tandemrun (pid %d): %s [TD6028]", kLauncher},
      {"job %s of %s: tandemrun (pid %d) ended unexpectedly, and the kernel ended the processes of "
       "the job on this host [TD7013]; hint: start the job again; tandem events %s shows the last "
       "event",
       kLauncher},
      {"cannot listen on %s: %s [TD4009]; hint: choose another address, or end the program that "
       "uses it",
       "a program that takes the port between two looks of tandemrun"},
      {"cannot get random bytes: %s", kKernel},
      {"cannot read %s: %s [TD1008]", "a disk that fails"},
      {"--place=%s cannot be used: %s",
       "machines differ in what they miss; e2e_device_pserver_test"},
      {"the shared-memory connection has no method %d",
       "a client of another version; shm_rpc_test"},
      {"this server does not support shared-memory connections", "pserver_shm_calls_test"},
      {"pserver %d has %d standbys that follow its primary, but a promotion needs %d (%s) "
       "[TD4032]; "
       "hint: run tandem status %s, and try again when the standbys follow",
       kStandbys},
      {"%s keeps its primary: %s [TD4032]; hint: run tandem events %s", kStandbys},
      {"pserver %d has no new primary after %d s [TD4032]; hint: run tandem events %s", kStandbys},
      {"pserver %d: member %d was restarted and is the primary again (term %d) [TD4032]; hint: "
       "run tandem status %s, and try again when the standbys follow",
       "a standby that hangs when the primary is killed"},
      {"cannot send a request to tandemrun through %s: %s [TD4032]", kStandbys},
      {"job %s is not elastic: its %d workers cannot change [TD7017]; hint: start the job with "
       "tandemrun --nproc=MIN:MAX",
       kScale},
      {"job %s has no pservers: --servers has no effect [TD7004]; hint: use --workers", kScale},
      {"rows of job %s cannot move, because its pservers have no durable state [TD7017]; hint: "
       "start the job with tandemrun --durability=logged --pserver_data_dir=DIR",
       kScale},
      {"%s=%d: the job allows %d to %d [TD1004]", kScale},
      {"--servers=%d: the job began with %d pservers, which trainers and commands that start "
       "later need; it allows %d to %d [TD1004]; hint: move the rows of a pserver away with "
       "tandem drain --pserver=N",
       kScale},
      {"--servers is not implemented for pservers with standbys or replicas [TD1109]; hint: "
       "start a pserver by hand, and run tandem rebalance --add",
       kScale},
      {"--servers is not implemented for a job on several hosts [TD1109]; hint: start a pserver "
       "by hand, and run tandem rebalance --add",
       kScale},
      {"--workers is not implemented for a job on several hosts [TD1109]; hint: end a tandemrun "
       "with SIGTERM, or start another one (tandemrun --hosts=MIN:MAX)",
       "tandemruns of several hosts"},
      {"job %s does not have %s after %d s: it has %d workers (%d more start or end) and %d "
       "pservers [TD7018]; hint: run tandem events %s, and repeat the command",
       kScale},
      {"another tandem scale changes job %s [TD7018]; hint: wait until the other command has ended",
       kScale},
      {"%d of %d row buckets and slices have moved, but the time limit has passed [TD7018]; "
       "hint: repeat the command, which moves the rest, or raise --wait_s",
       kScale},
      {"%s was %s: %s [TD7018]; hint: run tandem events %s",
       "a new pserver that tandemrun cannot start"},
      {"cannot send a request to tandemrun through %s: %s [TD7018]",
       "a tandemrun that ends between two looks"},
      {"the pservers have no dense variable \"%s\" [TD4034]%s",
       "a running job; python_tandem_read_test"},
      {"%s: no pserver has a table \"%s\" [TD7008]; hint: run tandem vars to see the tables of a "
       "running job",
       "directories of servers; e2e_rows_history_test"},
  };
  return rows;
}

// The status codes that no quick command reaches, each with the reason or the test that reaches it.
const std::map<StatusCode, std::string>& CodesElsewhere() {
  static const std::map<StatusCode, std::string> rows = {
      {StatusCode::kOutOfRange,
       "a server that does not serve these rows now, which clients retry; e2e_rebalance_test"},
      {StatusCode::kAborted, "a trainer that is lost for a minute; pserver_test"},
      {StatusCode::kCancelled, "a stop on request, which is told without it; e2e_faults_test"},
  };
  return rows;
}

std::string SourceDir() {
  const char* root = std::getenv("TANDEM_SOURCE_DIR");
  return root != nullptr ? root : ".";
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

std::vector<std::string> Transcripts() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/tests/messages")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Replaces the parts of an output that differ from run to run.
std::string Steady(std::string text, const std::string& dir) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  const std::pair<std::string, std::string> names[] = {{dir, "DIR"},
                                                       {"(" + std::string(host) + ")", "(HOST)"}};
  for (const auto& [name, with] : names) {
    for (size_t at; (at = text.find(name)) != std::string::npos;) {
      text.replace(at, name.size(), with);
    }
  }
  const std::pair<const char*, const char*> rows[] = {
      {R"((127\.0\.0\.1|0\.0\.0\.0|\[::\]):\d{4,5})", "$1:PORT"},
      {R"(\bpid \d+)", "pid N"},
      {R"(\bkill process \d+)", "kill process N"},
      {R"(\b\d+\.\d+ ?(m?s)\b)", "T $1"},
      {R"(\d{4}-\d\d-\d\dT[\d:.]+Z)", "TIME"},
      {R"(\b(kill|port) \d+)", "$1 N"},
  };
  for (const auto& [pattern, with] : rows) {
    text = std::regex_replace(text, std::regex(pattern), with);
  }
  return text;
}

// A directory with a few files. Commands run in this directory one after another.
class Shell {
 public:
  Shell() {
    char pattern[] = "/tmp/tandem-messages-XXXXXX";
    dir_ = mkdtemp(pattern);
    std::ofstream(dir_ + "/job.pbtxt") << kGoodJob;
    std::ofstream(dir_ + "/strategy.pbtxt") << "fuse_all_reduce_ops: true\n";
    std::ofstream(dir_ + "/train.csv") << "1,2,0\n";
  }
  ~Shell() { std::filesystem::remove_all(dir_); }

  // Returns the indented output of a command, followed by its exit code if it is not 0.
  std::string Run(const std::string& command) const {
    std::ofstream(dir_ + "/.command") << command << "\n";
    const char* const bin = std::getenv("TANDEM_BIN_DIR");
    CHECK(bin != nullptr) << "TANDEM_BIN_DIR: the folder of the programs, whole (ctest sets it)";
    const std::string line = "cd " + dir_ + " && env -i TANDEM=" + bin + " PATH=" + bin +
                             ":/usr/bin:/bin HOME=" + dir_ +
                             " LC_ALL=C TERM=dumb OMP_NUM_THREADS=1 timeout 60 bash .command 2>&1";
    std::FILE* out = popen(line.c_str(), "r");
    CHECK(out != nullptr);
    std::string text;
    char buffer[4096];
    for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), out)) > 0;) text.append(buffer, n);
    const int code = WEXITSTATUS(pclose(out));
    std::istringstream lines(Steady(text, dir_));
    std::string indented;
    for (std::string l; std::getline(lines, l);) indented += l.empty() ? "\n" : "  " + l + "\n";
    return indented + (code == 0 ? "" : "  [" + std::to_string(code) + "]\n");
  }

 private:
  std::string dir_;
};

// Runs the commands of a transcript. Returns the transcript with their current output.
std::string Rerun(const std::string& transcript) {
  const Shell shell;
  std::string now;
  std::istringstream lines(transcript);
  std::string command;
  bool remark_before = true;
  const auto run = [&] {
    if (command.empty()) return;
    now += shell.Run(command);
    command.clear();
  };
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("  $ ", 0) == 0) {
      run();
      if (remark_before && !now.empty()) now += "\n";
      command = line.substr(4);
      now += line + "\n";
      remark_before = false;
    } else if (line.rfind("  > ", 0) == 0) {
      command += "\n" + line.substr(4);
      now += line + "\n";
    } else if (!line.empty() && line[0] != ' ') {
      run();
      if (!remark_before) now += "\n";
      now += line + "\n";
      remark_before = true;
    }
  }
  run();
  return now;
}

std::string FirstDifference(const std::string& now, const std::string& before) {
  std::istringstream a(now), b(before);
  std::string was, is, command;
  while (true) {
    const bool more_a = static_cast<bool>(std::getline(a, is));
    const bool more_b = static_cast<bool>(std::getline(b, was));
    if (is != was || more_a != more_b) return absl::StrCat(command, "\n- ", was, "\n+ ", is, "\n");
    if (!more_a) return "";
    if (is.rfind("  $ ", 0) == 0) command = is;
  }
}

// Returns the messages of all transcripts, one per line. Hints follow "; " as in the sources.
std::vector<std::string> Said() {
  std::vector<std::string> said;
  for (const std::string& path : Transcripts()) {
    std::istringstream lines(ReadFile(path));
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("  hint: ", 0) == 0 && !said.empty()) {
        const bool question = line.rfind("  hint: did you mean", 0) == 0;
        std::string& before = said.back();
        before = before.substr(0, before.rfind(" (")) + "; " + line.substr(question ? 8 : 2);
      } else {
        said.push_back(line);
      }
    }
  }
  return said;
}

// Returns a pattern that matches the outputs of a printf format, or "" if the format has no fixed
// words.
std::string PatternOf(const std::string& format) {
  std::string pattern = std::regex_replace(format, std::regex(R"([.^$|()\[\]{}*+?\\])"), R"(\$&)");
  pattern = std::regex_replace(pattern, std::regex(R"(%(?:\\\.\d)?[a-z])"), ".*");
  return std::regex_search(pattern, std::regex("[a-z]{3}")) ? pattern : "";
}

// Returns the formats of the messages with which a source file makes a Status.
std::set<std::string> MessagesOf(const std::string& path) {
  const std::string text = std::regex_replace(ReadFile(path), std::regex("\"\\s*\n\\s*\""), "");
  const std::regex maker(
      R"re(\b(?:InvalidArgument|NotFound|AlreadyExists|OutOfRange|Unimplemented|FailedPrecondition|)re"
      R"re(DataLoss|Unavailable|PermissionDenied|Unauthenticated|Aborted|DeadlineExceeded|Cancelled|)re"
      R"re(ResourceExhausted|Internal)\(\s*"((?:[^"\\\n]|\\.)*)")re");
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), maker), end; it != end; ++it) {
    found.insert(std::regex_replace((*it)[1].str(), std::regex(R"(\\")"), "\""));
  }
  return found;
}

TEST(Messages, ReadAsTheyAreWrittenDown) {
  const bool update = std::getenv("TANDEM_UPDATE") != nullptr;
  ASSERT_GE(Transcripts().size(), 4u);
  for (const std::string& path : Transcripts()) {
    const std::string before = ReadFile(path);
    const std::string now = Rerun(before);
    if (update) {
      std::ofstream(path) << now;
    } else {
      EXPECT_TRUE(now == before) << path << ":\n"
                                 << FirstDifference(now, before)
                                 << "TANDEM_UPDATE=1 writes it again";
    }
  }
}

TEST(Messages, AllThatCanBeReachedAre) {
  const std::vector<std::string> said = Said();
  std::set<std::string> unused;
  for (const auto& [message, why] : Elsewhere()) unused.insert(message);
  int all = 0, reached = 0;
  std::string missing;
  const auto look = [&](const std::string& path) {
    for (const std::string& message : MessagesOf(path)) {
      const std::string pattern = PatternOf(message);
      if (pattern.empty()) continue;
      ++all;
      const std::regex regex(pattern);
      const bool is_said = std::any_of(said.begin(), said.end(), [&](const std::string& line) {
        return std::regex_search(line, regex);
      });
      reached += is_said ? 1 : 0;
      if (is_said) continue;
      if (Elsewhere().contains(message)) {
        unused.erase(message);
      } else {
        absl::StrAppend(&missing, path, ": ", message, "\n");
      }
    }
  };
  for (const char* covered : kCovered) {
    const std::string path = SourceDir() + "/" + covered;
    if (!std::filesystem::is_directory(path)) {
      look(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".cc") look(entry.path());
    }
  }
  std::printf("messages reached and written down: %d of %d; %zu elsewhere\n", reached, all,
              Elsewhere().size());
  EXPECT_GT(all, 100);
  EXPECT_EQ(missing, "") << "add a command to tests/messages, or a reason to Elsewhere()";
  for (const std::string& message : unused) ADD_FAILURE() << "reached, or gone: " << message;
}

// Every error has a code, so that the user can run `tandem explain`.
TEST(Messages, EveryErrorHasANumber) {
  for (const std::string& path : Transcripts()) {
    std::istringstream lines(ReadFile(path));
    for (std::string line; std::getline(lines, line);) {
      if (!std::regex_search(line, std::regex("^  tandem[a-z -]*: error: "))) continue;
      EXPECT_TRUE(std::regex_search(line, std::regex(R"(\[TD\d{4}\])"))) << path << ":" << line;
    }
  }
}

TEST(Messages, EveryCodeIsReached) {
  std::string all;
  for (const std::string& path : Transcripts()) all += ReadFile(path);
  for (const deploy::CodeRow& row : deploy::CodeTable()) {
    const std::string name = "(" + absl::StatusCodeToString(row.code) + ")";
    const bool said = all.find(name) != std::string::npos;
    EXPECT_NE(said, CodesElsewhere().contains(row.code)) << name;
  }
}

}  // namespace
}  // namespace tandem::deploy
