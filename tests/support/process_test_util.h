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

// From Debian's package dataset-fashion-mnist.
inline constexpr char kFashionMnist[] = "/usr/share/datasets/fashion-mnist";
inline constexpr int kProcessSecondsMax = 300;

// A small job with batch normalisation: ResNet-18 on synthetic images, batches of 16.
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
  // `program`: a name in build/bin, or an absolute path. `env`: added to the environment of this
  // process, from which the rank variables of other launchers are removed. Both output streams go
  // to `output_file`.
  ChildProcess(const std::string& program, const std::vector<std::string>& args,
               const std::map<std::string, std::string>& env, std::string output_file);
  ~ChildProcess();  // kills the process group and waits for the program
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number) const;  // to the program, not to its group
  bool Ended();
  // Returns the exit code, or 128 + signal. After the deadline the test fails, the program is
  // killed and the result is -1.
  int Wait(int seconds_max = kProcessSecondsMax);
  std::string Output() const;
  // Returns false if the program ends, or the deadline passes, before it writes `text`.
  bool WaitForText(const std::string& text, int seconds_max = kProcessSecondsMax);

 private:
  pid_t pid_ = -1;
  int exit_code_ = -1;
  bool ended_ = false;
  std::string output_file_;
};

// Calls `done` every 5 ms until it returns true; returns false after the deadline.
bool WaitUntil(const std::function<bool()>& done, int seconds_max = kProcessSecondsMax);

// Returns the first of `count` consecutive ports of 127.0.0.1 that were free at the time of the
// call.
int FreePort(int count = 1);
// Connects to 127.0.0.1:port, sends the bytes and reads until the peer closes the connection or one
// second has passed. Returns false if no server listens.
bool SendBytes(int port, const std::string& bytes);
// Returns the body of the reply to GET http://127.0.0.1:port/path; "" if there is no reply.
std::string HttpGet(int port, const std::string& path);

std::string ReadWholeFile(const std::string& path);  // "" if the file does not exist

// The results that rank 0 of a job writes at the end (--result_json).
struct JobResult {
  double accuracy = 0, auc = 0, loss = 0;
  int64_t steps = 0;
  std::string params_sha256;
  std::map<std::string, double> counts;  // see trainer/session/run_counts.h
};

struct JobRun {
  int exit_code = -1;
  std::string output;
  JobResult result;
};

// Gives each test a separate directory and runs jobs in it.
class JobTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Writes a file into the directory of the test and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  // Child processes of `parent` that run `program` of build/bin, in no particular order.
  static std::vector<pid_t> ChildrenOf(pid_t parent, const std::string& program);

  // Process id of the launcher's trainer with this rank; 0: no such trainer runs now.
  static pid_t TrainerOf(const ChildProcess& launcher, int rank);
  // Number of the last step in the launcher's output; 0: none. If one run makes several steps, some
  // of them do not appear, or appear only after a kill.
  static int StepOf(const ChildProcess& launcher);
  // Reads a number from the environment of this process.
  static int FromEnvironment(const char* name, int otherwise);

  // Starts `tandemrun LAUNCH job -- ARGS --result_json=name.json`, with logs in name.log/ and
  // output in name.out.
  std::unique_ptr<ChildProcess> StartJob(const std::string& name,
                                         const std::vector<std::string>& launch,
                                         const std::vector<std::string>& args) const;
  // Calls StartJob and waits for the end of the job.
  JobRun RunJob(const std::string& name, const std::vector<std::string>& launch,
                const std::vector<std::string>& args) const;
  JobResult ResultOf(const std::string& name) const;  // fails the test if there is no result

  std::string dir_;
  std::string job_;  // path of the job file; SetUp writes LeNet on Fashion-MNIST
};

}  // namespace tandem
