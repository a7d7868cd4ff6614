// tandem rejects files and directories of other users. Files and directories that it creates are
// private to the user.
#include "common/os/own_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/os/files.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kNobody = 65534;

class OwnFiles : public ::testing::Test {
 protected:
  std::string File(const std::string& name, mode_t mode) const {
    const std::string path = dir_ / name;
    std::ofstream(path) << "content";
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string Folder(const std::string& name, mode_t mode) const {
    const std::string path = dir_ / name;
    EXPECT_EQ(mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  static std::string Text(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  template <typename T>
  static void ExpectRefused(const StatusOr<T>& got, const std::string& said) {
    EXPECT_EQ(got.status().code(), StatusCode::kPermissionDenied) << got.status();
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(said));
  }

  const TempDir dir_;
};

TEST_F(OwnFiles, AreReadWithTheModesOfTheirRule) {
  struct Row {
    mode_t mode;
    bool user, group, secret;
  };
  for (const Row& row :
       {Row{0600, true, true, true}, Row{0644, true, true, false}, Row{0440, true, true, true},
        Row{0660, false, true, false}, Row{0646, false, false, false}}) {
    const std::string path = File("file", row.mode);
    EXPECT_EQ(ReadOwnFile(path, 100, OwnRule::kUser).ok(), row.user) << std::oct << row.mode;
    EXPECT_EQ(ReadOwnFile(path, 100, OwnRule::kGroup).ok(), row.group) << std::oct << row.mode;
    EXPECT_EQ(ReadOwnFile(path, 100, OwnRule::kSecret).ok(), row.secret) << std::oct << row.mode;
  }
  ExpectRefused(ReadOwnFile(File("file", 0666), 100, OwnRule::kUser),
                "(mode 666) [TD2113]; hint: run chmod go-w ");
  ExpectRefused(ReadOwnFile(File("file", 0644), 100, OwnRule::kSecret),
                "(mode 644) [TD6012]; hint: run chmod 600 ");
  const StatusOr<std::string> text = ReadOwnFile(File("file", 0600), 7, OwnRule::kUser);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "content");
  EXPECT_EQ(ReadOwnFile(dir_ / "file", 6, OwnRule::kUser).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ReadOwnFile(dir_ / "none", 6, OwnRule::kUser).status().code(), StatusCode::kNotFound);
}

TEST_F(OwnFiles, OfAnotherUserAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const std::string file = File("file", 0600), folder = Folder("folder", 0700);
  ASSERT_EQ(chown(file.c_str(), kNobody, 0), 0);
  ASSERT_EQ(chown(folder.c_str(), kNobody, 0), 0);
  for (const OwnRule rule : {OwnRule::kUser, OwnRule::kGroup, OwnRule::kSecret}) {
    ExpectRefused(ReadOwnFile(file, 100, rule), "(65534), expected root [TD2113]; hint: ");
    ExpectRefused(OpenOwnDir(folder, rule), "(65534), expected root [TD2113]; hint: ");
    ExpectRefused(MakeOwnDir(folder, rule), "[TD2113]");
  }
  // The rejected call must not truncate the file.
  EXPECT_EQ(WriteOwnFile(file, "mine").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Text(file), "content");
}

TEST_F(OwnFiles, LinksAreFollowedWhereAUserNamesThem) {
  const std::string file = File("file", 0600), folder = Folder("folder", 0700);
  const std::string to_file = dir_ / "to_file", to_folder = dir_ / "to_folder";
  std::filesystem::create_symlink(file, to_file);
  std::filesystem::create_symlink(folder, to_folder);
  EXPECT_TRUE(ReadOwnFile(to_file, 100, OwnRule::kSecret).ok()) << "as Kubernetes mounts secrets";
  EXPECT_TRUE(MakeOwnDir(to_folder, OwnRule::kGroup).ok());
  ExpectRefused(ReadOwnFile(to_file, 100, OwnRule::kUser),
                "is a link, which is not allowed here [TD2113]");
  ExpectRefused(OpenOwnDir(to_folder, OwnRule::kUser),
                "is a link, which is not allowed here [TD2113]");
  ExpectRefused(MakeOwnDir(to_folder, OwnRule::kUser),
                "is a link, which is not allowed here [TD2113]");
  EXPECT_EQ(WriteOwnFile(to_file, "mine").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Text(file), "content");
  std::filesystem::create_symlink(dir_ / "none", dir_ / "to_none");
  EXPECT_EQ(WriteOwnFile(dir_ / "to_none", "mine").code(), StatusCode::kPermissionDenied);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "none"));
}

TEST_F(OwnFiles, AreMadePrivate) {
  const mode_t before = umask(0);
  const StatusOr<Fd> made = MakeOwnDir(dir_ / "a/b/", OwnRule::kUser);
  umask(before);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(ModeOf(dir_ / "a/b"), 0700u);
  ASSERT_TRUE(WriteOwnFile(dir_ / "a/b/new", "text").ok());
  EXPECT_EQ(ModeOf(dir_ / "a/b/new"), 0600u);
  // A file written by an earlier version of Tandem is readable by other users. Writing it again
  // makes it private.
  const std::string old = File("old", 0644);
  ASSERT_TRUE(WriteOwnFile(old, "text").ok());
  EXPECT_EQ(ModeOf(old), 0600u);
  EXPECT_EQ(Text(old), "text");
}

TEST_F(OwnFiles, AFolderForAllUsersIsNoFolderOfOnesOwn) {
  const std::string shared = Folder("shared", 01777);
  ExpectRefused(MakeOwnDir(shared, OwnRule::kUser), "hint: name a directory inside it");
  ExpectRefused(MakeOwnDir(shared, OwnRule::kGroup), "(mode 777) [TD2113]");
  EXPECT_TRUE(MakeOwnDir(shared + "/mine", OwnRule::kUser).ok());
  // A directory with the mode of a Kubernetes volume with fsGroup.
  const std::string volume = Folder("volume", 02770);
  EXPECT_TRUE(MakeOwnDir(volume, OwnRule::kGroup).ok());
  ExpectRefused(MakeOwnDir(volume, OwnRule::kUser), "hint: run chmod go-w ");
}

TEST_F(OwnFiles, ASocketIsCalledInAFolderThatOthersDoNotWrite) {
  const auto said = [](const std::string& path) {
    return std::string(CheckOwnSocket(path).message());
  };
  const std::string own = Folder("own", 0700), open = Folder("open", 0777);
  EXPECT_EQ(said(own + "/s"), "");
  EXPECT_EQ(said(dir_ / "none/s"), "") << "connecting says that it is not there";
  EXPECT_THAT(said(open + "/s"), HasSubstr("open (mode 777) [TD2113]"));
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  EXPECT_EQ(chown(own.c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(said(own + "/s"), HasSubstr("own belongs to user nobody (65534), expected root"));
  // A directory with the mode of /tmp.
  const std::string common = Folder("common", 01777), socket = common + "/s";
  EXPECT_EQ(said(socket), "");
  std::ofstream(socket) << "";
  EXPECT_EQ(said(socket), "");
  EXPECT_EQ(chown(socket.c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(said(socket), HasSubstr("common/s belongs to user nobody (65534)"));
}

TEST_F(OwnFiles, PipesDoNotHoldTheCallerUp) {
  const std::string pipe = dir_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const StatusOr<std::string> read = ReadOwnFile(pipe, 100, OwnRule::kUser);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("is not a regular file"));
}

TEST(Files, AFileThatCouldNotBeWrittenIsToldBefore) {
  const TempDir dir;
  EXPECT_TRUE(CheckWritable(dir / "new").ok());
  EXPECT_FALSE(std::filesystem::exists(dir / "new")) << "it was only tried";
  std::ofstream(dir / "old") << "content";
  EXPECT_TRUE(CheckWritable(dir / "old").ok());
  EXPECT_EQ(std::filesystem::file_size(dir / "old"), 7u);
  EXPECT_TRUE(CheckWritable("/dev/null").ok());
  EXPECT_EQ(CheckWritable(dir / "none/new").code(), StatusCode::kNotFound);
  EXPECT_EQ(CheckWritable(dir.path()).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
