// The secrets of a job disappear when the process that created them ends.
#include "deploy/launch/held_secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_format.h"
#include "common/rpc/credentials/token.h"
#include "deploy/launch/pserver_sockets.h"
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
    deploy::HeldSecrets made;
    ASSERT_TRUE(made.Hold(path, std::string(kSecret) + "\n").ok());
    made.AddDir(dir / "tls");
    const deploy::HeldSecrets secrets = std::move(made);
    const StatusOr<std::string> read = rpc::ReadSecretFile(path);
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
    deploy::HeldSecrets secrets;
    const bool held = secrets.Hold(path, std::string(kSecret) + "\n").ok();
    [[maybe_unused]] const ssize_t n = write(ready[1], held ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  const StatusOr<std::string> read_there = rpc::ReadSecretFile(path);
  EXPECT_TRUE(read_there.ok()) << read_there.status();
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(rpc::ReadSecretFile(path).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(path)) << "what is left is a link to nothing";
}

// Creates a Unix-domain socket at `path` that listens while the returned descriptor is open.
Fd Listen(const std::string& path) {
  Fd made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(made.get(), 1), 0);
  return made;
}

TEST(SocketFolders, OfDeadLaunchersAloneAreRemoved) {
  const TempDir dir;
  const auto name = [&](int i) { return dir / absl::StrFormat("tandem-%016x", i); };
  for (const int i : {1, 3, 4, 5}) ASSERT_EQ(mkdir(name(i).c_str(), 0700), 0);
  const StatusOr<Fd> lock = deploy::MakePrivateDir(name(2));
  ASSERT_TRUE(lock.ok()) << lock.status();
  Listen(name(3) + "/pserver-0");  // closes the socket at once, as the end of a process does
  const Fd alive = Listen(name(4) + "/pserver-0");
  std::ofstream(name(5) + "/notes") << "a user's";
  const std::string other = dir / "tandem-of-a-user";
  ASSERT_EQ(mkdir(other.c_str(), 0700), 0);
  const auto left = [&] {
    std::string all;
    for (const int i : {1, 2, 3, 4, 5}) all += fs::exists(name(i)) ? absl::StrFormat("%d", i) : "";
    return all;
  };
  deploy::RemoveDeadSocketDirs(name(9), std::chrono::hours(1));
  EXPECT_EQ(left(), "12345") << "one that was just made may not have its lock yet";
  deploy::RemoveDeadSocketDirs(name(9), Duration::zero());
  EXPECT_EQ(left(), "245");
  EXPECT_TRUE(fs::exists(other));
}

}  // namespace
}  // namespace tandem::deploy
