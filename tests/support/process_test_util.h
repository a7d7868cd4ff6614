// Runs programs of build/bin as a user does. Each program runs in a separate process group and
// writes its output to a file. Every wait has a deadline, and no process is left when the test
// ends.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// The directory in which Debian's package dataset-fashion-mnist installs its files.
inline constexpr char kFashionMnist[] = "/usr/share/datasets/fashion-mnist";
inline constexpr int kProcessSecondsMax = 300;

// A small job with batch normalisation: ResNet-18 on synthetic images in batches of 16.
inline constexpr char kResNet18Job[] = R"(
name: "resnet18"
model {
  zoo: "resnet18"
  arg { name: "image" value: "3,8,8" }
  arg { name: "classes" value: "10" }
  arg { name: "stem" value: "3" }
}
data {
  format: "synthetic"
  synthetic { image: 3 image: 8 image: 8 classes: 10 samples: 3200 test_samples: 100 }
}
optimizer { type: "momentum" learning_rate: 0.02 }
global_batch_size: 16
eval_every_epochs: 0
)";

// Returns the directory of Fashion-MNIST without compression, which the build makes
// (tests/e2e/CMakeLists.txt); kFashionMnist if the build has not made it. Both have the same
// images.
std::string FashionMnistDir();

// Returns the path of a program: of build/bin if `program` is no absolute path.
std::string BinPath(const std::string& program);

// A running program. Not thread-safe.
class ChildProcess {
 public:
  // Starts `program`: a name in build/bin, or an absolute path. The program gets the environment of
  // this process without rank variables of other launchers, plus `env`. Standard output and
  // standard error go to `output_file`.
  ChildProcess(const std::string& program, const std::vector<std::string>& args,
               const std::map<std::string, std::string>& env, std::string output_file);
  ~ChildProcess();  // kills the process group and waits for the program
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Sends a signal to the program, but not to its process group. After SIGSTOP, waits until all
  // threads of the program have stopped or the program has ended.
  void Signal(int number) const;
  bool Ended();
  // Waits for the end of the program. Returns its exit code, or 128 + signal. If the program runs
  // longer than `seconds_max`, fails the test, kills the program and returns -1.
  int Wait(int seconds_max = kProcessSecondsMax);
  std::string Output() const;
  // Waits until the program has written `text`, and returns true. Returns false if the program ends
  // or `seconds_max` seconds pass before that.
  bool WaitForText(const std::string& text, int seconds_max = kProcessSecondsMax);

 private:
  pid_t pid_ = -1;
  int exit_code_ = -1;
  bool ended_ = false;
  std::string output_file_;
};

// Calls `done` every 5 ms until `done` returns true. Returns false if `seconds_max` seconds pass
// before that.
bool WaitUntil(const std::function<bool()>& done, int seconds_max = kProcessSecondsMax);

// Reserves `count` consecutive ports of 127.0.0.1 until the end of this process and returns the
// first one. Servers that listen with SO_REUSEADDR can use them.
int FreePort(int count = 1);
// Connects to 127.0.0.1:port, sends the bytes and reads until the peer closes the connection or one
// second has passed. Returns false if no server listens.
bool SendBytes(int port, const std::string& bytes);
// Returns the body of the reply to GET http://127.0.0.1:port/path; "" if there is no reply.
std::string HttpGet(int port, const std::string& path);

// Returns the content of a file; "" if the file does not exist.
std::string ReadWholeFile(const std::string& path);

// The results that rank 0 of a job writes (--result_json).
struct JobResult {
  double accuracy = 0, auc = 0, loss = 0;
  int64_t steps = 0;
  std::string params_sha256;
  // Counters of the job by name, see trainer/session/run_counts.h.
  std::map<std::string, double> counts;
};

struct JobRun {
  int exit_code = -1;
  std::string output;
  JobResult result;
};

// Gives each test a separate directory and runs jobs in it.
class JobTest : public ::testing::Test {
 public:
  // Returns the ids of the child processes of `parent` that run `program` of build/bin, in no
  // particular order.
  static std::vector<pid_t> ChildrenOf(pid_t parent, const std::string& program);

  // Returns the process id of the trainer that `launcher` runs with this rank; 0: no such trainer
  // runs now.
  static pid_t TrainerOf(const ChildProcess& launcher, int rank);
  // Returns the number of the last step in the launcher's output; 0: no step. The output may lack
  // several recent steps, or show steps only after a kill.
  static int StepOf(const ChildProcess& launcher);
  // Returns the number in the environment variable `name`; `otherwise` if the variable is not set.
  static int FromEnvironment(const char* name, int otherwise);

 protected:
  void SetUp() override;
  void TearDown() override;

  // Writes a file into the directory of the test and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }

  // Starts `tandemrun LAUNCH job -- ARGS --result_json=name.json`. Logs are in name.log/, the
  // output is in name.out.
  std::unique_ptr<ChildProcess> StartJob(const std::string& name,
                                         const std::vector<std::string>& launch,
                                         const std::vector<std::string>& args) const;
  // Calls StartJob, waits for the end of the job and returns its results.
  JobRun RunJob(const std::string& name, const std::vector<std::string>& launch,
                const std::vector<std::string>& args) const;
  JobResult ResultOf(const std::string& name) const;  // fails the test if the job wrote no result

  std::string dir_;
  std::string job_;  // path of the job file; SetUp writes a job with LeNet on Fashion-MNIST
};

}  // namespace tandem
