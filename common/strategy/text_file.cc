#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace tandem::strategy {

namespace {

// Owns a file descriptor and closes it on destruction.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

Status OpenError(const std::string& path, int error) {
  const std::string why = ErrnoText(error);
  if (error == ENOENT || error == ENOTDIR)
    return NotFound("cannot open %s: %s [TD1008]", path, why);
  if (error == EACCES || error == EPERM)
    return PermissionDenied("cannot open %s: %s [TD1008]", path, why);
  return InvalidArgument("cannot open %s: %s [TD1008]", path, why);
}

}  // namespace

StatusOr<TextFile> ReadTextFile(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return OpenError(path, errno);
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return OpenError(path, errno);
  if (S_ISDIR(info.st_mode))
    return InvalidArgument("%s is a directory, expected a file [TD1008]", path);
  TextFile file{path, ""};
  char buffer[1 << 16];
  // Checks the size while reading, because a pipe or a growing file has no known size.
  while (true) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return DataLoss("cannot read %s: %s [TD1008]", path, ErrnoText(errno));
    if (n == 0) return file;
    file.text.append(buffer, static_cast<size_t>(n));
    if (static_cast<int64_t>(file.text.size()) > kTextFileBytesMax) {
      return InvalidArgument("%s is larger than %d MiB, the maximum for a text file [TD1008]", path,
                             kTextFileBytesMax >> 20);
    }
  }
}

Status LoadTextProto(const std::string& path, google::protobuf::Message* out, Origins* origins,
                     Diagnostics* diagnostics) {
  TD_ASSIGN_OR_RETURN(const TextFile file, ReadTextFile(path));
  ParseTextProto(file, out, origins, diagnostics);
  return diagnostics->status();
}

}  // namespace tandem::strategy
