// Programs of build/bin run as a user runs them, for tests: each in a process group of its own,
// with its output in a file, a deadline on every wait, and nothing left when the test ends.
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

// Debian's package dataset-fashion-mnist.
inline constexpr char kFashionMnist[] = "/usr/share/datasets/fashion-mnist";
inline constexpr int kProcessSecondsMax = 300;

// A small job with batch normalisation: ResNet-18 on synthetic images, in steps of 16.
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

// One running program. Not thread-safe.
class ChildProcess {
 public:
  // `program`: a name in build/bin, or an absolute path. `env`: added to this process's
  // environment, from which other launchers' words on ranks are taken out. Both output streams go
  // to `output_file`.
  ChildProcess(const std::string& program, const std::vector<std::string>& args,
               const std::map<std::string, std::string>& env, std::string output_file);
  ~ChildProcess();  // kills the group and collects the program
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number) const;  // to the program alone
  bool Ended();
  // Exit code, or 128 + signal. Past the deadline the test fails, the program is killed: -1.
  int Wait(int seconds_max = kProcessSecondsMax);
  std::string Output() const;
  // False when the program ended, or the deadline passed, without having written `text`.
  bool WaitForText(const std::string& text, int seconds_max = kProcessSecondsMax);

 private:
  pid_t pid_ = -1;
  int exit_code_ = -1;
  bool ended_ = false;
  std::string output_file_;
};

// Looks every 5 ms; false past the deadline.
bool WaitUntil(const std::function<bool()>& done, int seconds_max = kProcessSecondsMax);

// The first of `count` ports in a row of 127.0.0.1 that were free a moment ago.
int FreePort(int count = 1);
// Connects to 127.0.0.1:port, sends the bytes and reads until the other side hangs up or a second
// has passed. False when nobody listens.
bool SendBytes(int port, const std::string& bytes);
// Body of the answer to GET http://127.0.0.1:port/path; "" when nobody answers.
std::string HttpGet(int port, const std::string& path);

std::string ReadWholeFile(const std::string& path);  // "" when absent

// What a job's rank 0 says at the end (--result_json).
struct JobResult {
  double accuracy = 0, auc = 0, loss = 0;
  int64_t steps = 0;
  std::string params_sha256;
  std::map<std::string, double> counts;  // trainer/session/run_counts.h
};

struct JobRun {
  int exit_code = -1;
  std::string output;
  JobResult result;
};

// Gives each test a folder of its own and runs jobs in it.
class JobTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Writes a file of the test's folder and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  // Children of a process that run `program` of build/bin, in no particular order.
  static std::vector<pid_t> ChildrenOf(pid_t parent, const std::string& program);

  // The process of a trainer of a launcher; 0: none runs now.
  static pid_t TrainerOf(const ChildProcess& launcher, int rank);
  // The last step in its output; 0: none. Where one run has several steps, not all of them appear,
  // and others behind a kill.
  static int StepOf(const ChildProcess& launcher);
  // A number of this process's environment.
  static int FromEnvironment(const char* name, int otherwise);

  // tandemrun LAUNCH job -- ARGS --result_json=name.json, logs in name.log/, output in name.out.
  std::unique_ptr<ChildProcess> StartJob(const std::string& name,
                                         const std::vector<std::string>& launch,
                                         const std::vector<std::string>& args) const;
  // StartJob, to its end.
  JobRun RunJob(const std::string& name, const std::vector<std::string>& launch,
                const std::vector<std::string>& args) const;
  JobResult ResultOf(const std::string& name) const;  // fails the test when there is none

  std::string dir_;
  std::string job_;  // path of the job file; SetUp writes LeNet on Fashion-MNIST
};

}  // namespace tandem
