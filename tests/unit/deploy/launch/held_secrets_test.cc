// Secrets of a job end with the process that created them.
#include "deploy/launch/held_secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/rpc/token.h"
#include "tests/support/temp_dir.h"

namespace tandem::deploy {
namespace {

namespace fs = std::filesystem;

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";

TEST(HeldSecrets, AreReadAtTheirPathAndEndWithTheObject) {
  const TempDir dir;
  const std::string path = dir / "job.secret";
  std::ofstream(path) << "of an earlier job";
  fs::create_directory(dir / "tls");
  {
    HeldSecrets made;
    ASSERT_TRUE(made.Hold(path, std::string(kSecret) + "\n").ok());
    made.AddFolder(dir / "tls");
    const HeldSecrets secrets = std::move(made);
    const StatusOr<std::string> read = ReadSecretFile(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, kSecret);
    EXPECT_TRUE(fs::is_symlink(path)) << "no disk has it";
    EXPECT_FALSE(std::ofstream(path, std::ios::app).write("x", 1).flush().good()) << "sealed";
  }
  EXPECT_FALSE(fs::exists(fs::symlink_status(path)));
  EXPECT_FALSE(fs::exists(dir / "tls"));
}

TEST(HeldSecrets, AreGoneWithAProcessThatIsKilled) {
  const TempDir dir;
  const std::string path = dir / "job.secret";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    HeldSecrets secrets;
    const bool held = secrets.Hold(path, std::string(kSecret) + "\n").ok();
    [[maybe_unused]] const ssize_t n = write(ready[1], held ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  const StatusOr<std::string> read_there = ReadSecretFile(path);
  EXPECT_TRUE(read_there.ok()) << read_there.status();
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(ReadSecretFile(path).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(path)) << "what is left is a link to nothing";
}

}  // namespace
}  // namespace tandem::deploy
