// Folders and files that are secret or valuable, or that name what a program then trusts. They
// belong to the user of this process or to root, and others do not write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem {

// What is checked on the open descriptor, besides its owner.
enum class OwnRule {
  // Neither group nor others write it, and the path does not end in a link. For names that a
  // program chooses by itself, in a folder where others may have made them before.
  kUser,
  // Others do not write it. A link is followed and the group may write: a user names the path, and
  // Kubernetes gives volumes to a group (fsGroup).
  kGroup,
  // Others neither read nor write it, and the group only reads it. A link is followed: the files of
  // a mounted secret of Kubernetes are links, and its group may read them.
  kSecret,
};

// OK, or PERMISSION_DENIED with the owner or the mode of what `fd` is: TD2113, or for kSecret
// TD6012 where only the mode is wrong. `path` is for the message.
Status CheckOwn(int fd, const std::string& path, OwnRule rule);

// A folder that is there. NOT_FOUND, or PERMISSION_DENIED as CheckOwn says.
StatusOr<Fd> OpenOwnFolder(const std::string& path, OwnRule rule);
// The same of a folder that is made where it is absent, with mode 0700; its parents as the umask
// says.
StatusOr<Fd> MakeOwnFolder(const std::string& path, OwnRule rule);

// For a client, before it calls the server that listens at this Unix-domain socket: OK, or
// PERMISSION_DENIED as CheckOwn says of the socket's folder by kGroup. In a folder for all users,
// as /tmp is, the owner of the socket counts. OK where there is nothing yet.
Status CheckOwnSocket(const std::string& path);

// A regular file. `flags`: those of open(2); what O_CREAT makes has mode 0600, and O_TRUNC empties
// the file once it was checked.
StatusOr<Fd> OpenOwnFile(const std::string& path, int flags, OwnRule rule);
// The whole file; DATA_LOSS beyond `bytes_max`.
StatusOr<std::string> ReadOwnFile(const std::string& path, uint64_t bytes_max, OwnRule rule);
// Writes or replaces a file, which has mode 0600 from then on and is not synced. kUser.
Status WriteOwnFile(const std::string& path, std::string_view text);

// All of `text` into a descriptor. The errors are those of FileError, naming `path`.
Status WriteAll(int fd, const std::string& path, std::string_view text);

}  // namespace tandem
