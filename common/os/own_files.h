// Accesses directories and files that are secret or valuable, or whose contents a program trusts.
// Such a directory or file must belong to this process's user or to root, and other users must not
// be able to write to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem {

// Rules for the mode of a file or directory. With every rule, this process's user or root must also
// own the file or directory.
enum class OwnRule {
  // Neither the group nor other users may write to the file, and the path must not end in a
  // symbolic link. This rule is for a name that the program chooses itself, in a directory where
  // another user may already have created a file of this name.
  kUser,
  // The group may write to the file, but other users may not. A symbolic link is followed. This
  // rule is for paths that a user names, and for Kubernetes volumes, which belong to a group
  // (fsGroup).
  kGroup,
  // The group may read the file, but other users may not, and only the owner may write to it. A
  // symbolic link is followed, because the files of a mounted Kubernetes secret are links.
  kSecret,
};

// Checks the owner and the mode of the descriptor `fd` by `rule`. `path` is for messages only.
// PERMISSION_DENIED: `fd` breaks the rule. The message has the code TD6012 if the rule is kSecret
// and only the mode is wrong, otherwise TD2113.
Status CheckOwn(int fd, const std::string& path, OwnRule rule);

// Opens an existing directory. NOT_FOUND: there is no such directory. PERMISSION_DENIED: see
// CheckOwn.
StatusOr<Fd> OpenOwnDir(const std::string& path, OwnRule rule);
// Like OpenOwnDir, but creates the directory with mode 0700 if it is missing. Missing parent
// directories get the mode of the umask.
StatusOr<Fd> MakeOwnDir(const std::string& path, OwnRule rule);

// Checks whether the owner of the Unix-domain socket `path` can be trusted. A client calls this
// function before it connects to the socket. The check passes if the socket's directory passes
// CheckOwn with kGroup. In a directory for all users, such as /tmp, the owner of the socket itself
// must be this process's user or root. OK also if the directory cannot be opened for a reason other
// than permissions: the connection attempt of the client reports this error. PERMISSION_DENIED: the
// check failed.
Status CheckOwnSocket(const std::string& path);

// Opens a regular file. `flags` are those of open(2). With O_CREAT, a new file gets mode 0600. With
// O_TRUNC, the file is truncated after the checks.
StatusOr<Fd> OpenOwnFile(const std::string& path, int flags, OwnRule rule);
// Reads a whole file after the checks of `rule`. DATA_LOSS: the file has more than `bytes_max`
// bytes.
StatusOr<std::string> ReadOwnFile(const std::string& path, uint64_t bytes_max, OwnRule rule);
// Creates or replaces a file after the checks of kUser, without fsync. The mode of the file becomes
// 0600.
Status WriteOwnFile(const std::string& path, std::string_view text);

// Writes all of `text` to `fd`. The errors are those of FileError; messages name `path`.
Status WriteAll(int fd, const std::string& path, std::string_view text);

}  // namespace tandem
