// Tests the signals that request the end of a process.
#include "common/threads/stop_request.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>

namespace tandem {
namespace {

// Runs `run` in a child process that handles signals with StopRequests. Returns the exit status of
// the child.
template <typename Run>
int StatusOfChild(const Run& run) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // ends the child if no signal ends it before
    BlockStopSignals();
    run();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(StopRequests, TheFirstSignalIsTold) {
  const int status = StatusOfChild([] {
    std::promise<int> told;
    StopRequests requests([&](int signal) { told.set_value(signal); }, [](int) { _exit(3); });
    kill(getpid(), SIGINT);
    _exit(told.get_future().get() == SIGINT ? 7 : 1);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(StopRequests, ALaterOneIsAnotherRequest) {
  const int status = StatusOfChild([] {
    std::promise<void> told;
    StopRequests requests([&](int) { told.set_value(); }, EndBySignal);
    kill(getpid(), SIGTERM);
    told.get_future().get();
    std::this_thread::sleep_for(2 * kSameStopRequest);
    kill(getpid(), SIGTERM);
    pause();
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(StopRequests, EndsWithoutASignal) {
  const int status = StatusOfChild([] {  // ends within less than one tick of the signal thread
    for (int i = 0; i < 20; ++i) StopRequests([](int) { _exit(1); }, [](int) { _exit(2); });
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tandem
