#include "common/os/own_files.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "common/os/files.h"

namespace tandem {
namespace {

// Returns the name and number of a user as text. Example: "user daemon (1)". The call may query a
// name service.
std::string UserText(uid_t uid) {
  std::array<char, 4096> space;
  passwd entry{};
  passwd* found = nullptr;
  const bool named = getpwuid_r(uid, &entry, space.data(), space.size(), &found) == 0;
  if (!named || found == nullptr) return absl::StrFormat("user %d", uid);
  return absl::StrFormat("user %s (%d)", found->pw_name, uid);
}

unsigned RefusedBits(OwnRule rule) {
  switch (rule) {
    case OwnRule::kUser:
      return 022;
    case OwnRule::kGroup:
      return 002;
    case OwnRule::kSecret:
      return 027;
  }
  return 077;
}

// Returns O_NOFOLLOW for kUser. The other rules are for paths that a user names, and follow
// symbolic links in these paths.
int LinkFlag(OwnRule rule) { return rule == OwnRule::kUser ? O_NOFOLLOW : 0; }

Status CannotOpen(const std::string& path, OwnRule rule, int error) {
  if (error == ELOOP && rule == OwnRule::kUser) {
    return PermissionDenied(
        "%s is a link, which is not allowed here [TD2113]; hint: name the target of the link",
        path);
  }
  return FileError(path, "cannot be opened", error);
}

}  // namespace

Status CheckOwn(int fd, const std::string& path, OwnRule rule) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return FileError(path, "cannot be examined", errno);
  const bool dir = S_ISDIR(info.st_mode);
  const char* kind = dir ? "directory" : "file";
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    const std::string expected = geteuid() == 0 ? "root" : UserText(geteuid()) + " or root";
    return PermissionDenied(
        "%s %s belongs to %s, expected %s [TD2113]; hint: run the command as the expected user, or "
        "name another %s",
        kind, path, UserText(info.st_uid), expected, kind);
  }
  const unsigned mode = info.st_mode & 0777;
  if ((mode & RefusedBits(rule)) == 0) return OkStatus();
  if (rule == OwnRule::kSecret) {
    return PermissionDenied(
        "other users may read or change %s (mode %o) [TD6012]; hint: run chmod 600 %s", path, mode,
        path);
  }
  // true: a sticky directory that all users share, such as /tmp
  const bool common = dir && (info.st_mode & S_ISVTX) != 0;
  const std::string hint =
      common ? "name a directory inside it"
             : absl::StrFormat("run chmod %s %s", rule == OwnRule::kUser ? "go-w" : "o-w", path);
  return PermissionDenied("other users may write to %s %s (mode %o) [TD2113]; hint: %s", kind, path,
                          mode, hint);
}

StatusOr<Fd> OpenOwnDir(const std::string& path, OwnRule rule) {
  Fd dir(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | LinkFlag(rule)));
  if (!dir.valid()) {
    // Converts the error for a symbolic link to ELOOP, because open() of a link fails with ENOTDIR
    // if O_DIRECTORY is set.
    const int error = errno;
    struct stat info {};
    const bool link = error == ENOTDIR && lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
    return CannotOpen(path, rule, link ? ELOOP : error);
  }
  TD_RETURN_IF_ERROR(CheckOwn(dir.get(), path, rule));
  return dir;
}

StatusOr<Fd> MakeOwnDir(const std::string& path, OwnRule rule) {
  std::string name = path;
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  const std::filesystem::path parent = std::filesystem::path(name).parent_path();
  std::error_code error;
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) return FileError(path, "cannot be made", error.value());
  if (mkdir(name.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError(path, "cannot be made", errno);
  }
  return OpenOwnDir(name, rule);
}

Status CheckOwnSocket(const std::string& path) {
  const std::string dir = std::filesystem::path(path).parent_path();
  const Status own = OpenOwnDir(dir, OwnRule::kGroup).status();
  // The connection attempt of the client reports any other error.
  if (own.code() != StatusCode::kPermissionDenied) return OkStatus();
  struct stat info {};
  const bool common =
      stat(dir.c_str(), &info) == 0 && info.st_uid == 0 && (info.st_mode & S_ISVTX) != 0;
  if (!common) return own;
  if (lstat(path.c_str(), &info) != 0 || info.st_uid == geteuid() || info.st_uid == 0) {
    return OkStatus();
  }
  return PermissionDenied(
      "socket %s belongs to %s, expected %s or root [TD2113]; hint: run the command as the owner, "
      "or name the socket of your own server",
      path, UserText(info.st_uid), UserText(geteuid()));
}

StatusOr<Fd> OpenOwnFile(const std::string& path, int flags, OwnRule rule) {
  // Without O_NONBLOCK, opening a pipe of another user would block this program.
  const int how = (flags & ~O_TRUNC) | O_CLOEXEC | O_NONBLOCK | LinkFlag(rule);
  Fd file(open(path.c_str(), how, 0600));
  if (!file.valid()) return CannotOpen(path, rule, errno);
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return FileError(path, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode)) return DataLoss("%s is not a regular file [TD2106]", path);
  TD_RETURN_IF_ERROR(CheckOwn(file.get(), path, rule));
  if ((flags & O_TRUNC) != 0 && ftruncate(file.get(), 0) != 0) {
    return FileError(path, "cannot be emptied", errno);
  }
  return file;
}

StatusOr<std::string> ReadOwnFile(const std::string& path, uint64_t bytes_max, OwnRule rule) {
  TD_ASSIGN_OR_RETURN(const Fd file, OpenOwnFile(path, O_RDONLY, rule));
  std::string text;
  std::array<char, 4096> piece;
  while (true) {
    const ssize_t n = read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(path, "cannot be read", errno);
    if (n == 0) return text;
    text.append(piece.data(), static_cast<size_t>(n));
    if (text.size() > bytes_max) {
      return DataLoss("%s has more than %d bytes, which is the maximum [TD2106]", path, bytes_max);
    }
  }
}

Status WriteOwnFile(const std::string& path, std::string_view text) {
  TD_ASSIGN_OR_RETURN(const Fd file,
                      OpenOwnFile(path, O_WRONLY | O_CREAT | O_TRUNC, OwnRule::kUser));
  // Corrects the mode, because an earlier version may have created the file readable for other
  // users.
  if (fchmod(file.get(), 0600) != 0) return FileError(path, "cannot be made private", errno);
  return WriteAll(file.get(), path, text);
}

Status WriteAll(int fd, const std::string& path, std::string_view text) {
  // maximum bytes per call of write(), because Linux writes less than 2 GiB per call
  constexpr size_t kWriteBytesMax = size_t{1} << 30;
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), std::min(text.size(), kWriteBytesMax));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(path, "cannot be written", errno);
    text.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

}  // namespace tandem
