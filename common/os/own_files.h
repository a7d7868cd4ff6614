// Directories and files that are secret or valuable, or whose contents a program trusts. They must
// belong to the user of this process or to root, and other users must not be able to write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem {

// Rules for an open descriptor, in addition to the check of its owner.
enum class OwnRule {
  // Neither group nor others may write it, and the path must not end in a symbolic link. For names
  // that a program chooses itself, in a directory where others may have created them before.
  kUser,
  // Others may not write it. A symbolic link is followed and the group may write: the user names
  // the path, and Kubernetes gives volumes to a group (fsGroup).
  kGroup,
  // Others may neither read nor write it, and the group may only read it. A symbolic link is
  // followed: the files of a mounted Kubernetes secret are links, and its group may read them.
  kSecret,
};

// PERMISSION_DENIED: the owner or the mode of `fd` breaks the rule. The code is TD2113, or TD6012
// if the rule is kSecret and only the mode is wrong. `path` is for the message.
Status CheckOwn(int fd, const std::string& path, OwnRule rule);

// Opens an existing directory. NOT_FOUND: it does not exist. PERMISSION_DENIED: see CheckOwn.
StatusOr<Fd> OpenOwnDir(const std::string& path, OwnRule rule);
// The same, but creates a missing directory with mode 0700. Missing parents get the mode of the
// umask.
StatusOr<Fd> MakeOwnDir(const std::string& path, OwnRule rule);

// A client calls this before it calls the server at the Unix-domain socket `path`. OK: the socket's
// directory passes CheckOwn by kGroup, or does not exist yet. In a directory for all users, such as
// /tmp, the socket's owner is checked instead. PERMISSION_DENIED: the check failed.
Status CheckOwnSocket(const std::string& path);

// Opens a regular file. `flags` are those of open(2). O_CREAT creates it with mode 0600; O_TRUNC
// truncates it after the checks.
StatusOr<Fd> OpenOwnFile(const std::string& path, int flags, OwnRule rule);
// Reads the whole file. DATA_LOSS: it is larger than `bytes_max`.
StatusOr<std::string> ReadOwnFile(const std::string& path, uint64_t bytes_max, OwnRule rule);
// Writes or replaces a file under the rule kUser. It then has mode 0600. No sync.
Status WriteOwnFile(const std::string& path, std::string_view text);

// Writes all of `text` to `fd`. Errors are those of FileError and name `path`.
Status WriteAll(int fd, const std::string& path, std::string_view text);

}  // namespace tandem
