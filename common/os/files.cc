#include "common/os/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "common/base/check.h"
#include "common/os/fd.h"
#include "common/os/host_limits.h"
#include "common/os/own_files.h"

namespace tandem {

Status FileError(const std::string& path, const char* what, int error) {
  const std::string text = absl::StrFormat("%s: %s (%s)", path, what, ErrnoText(error));
  StatusCode code = StatusCode::kDataLoss;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      code = StatusCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = StatusCode::kPermissionDenied;
      break;
    case ENOSPC:
    case EDQUOT:
      return ResourceExhausted(
          "the disk is full: %s [TD2107]; hint: free space on the disk, or choose another "
          "directory",
          text);
    case EMFILE:
    case ENFILE:
      return TooManyFiles(text);
    case EFBIG:
      return FileTooLarge(text);
    case EEXIST:
      code = StatusCode::kAlreadyExists;
      break;
    case EISDIR:
      code = StatusCode::kInvalidArgument;
      break;
    default:
      break;
  }
  return Status(code, text + " [TD2106]");
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) close(fd_);
}

Status FileWriter::Open(const std::string& path) {
  CHECK_LT(fd_, 0);
  path_ = path;
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return fd_ >= 0 ? OkStatus() : FileError(path, "cannot be created", errno);
}

Status FileWriter::Write(const void* data, size_t bytes) {
  return WriteAll(fd_, path_, {static_cast<const char*>(data), bytes});
}

Status FileWriter::Close() {
  const int fd = fd_;
  fd_ = -1;
  return close(fd) == 0 ? OkStatus() : FileError(path_, "cannot be closed", errno);
}

Status FileWriter::SyncAndClose() {
  // EINVAL and EROFS are no errors here: the file is special, for example a pipe, and does not
  // support fsync.
  const bool synced = fsync(fd_) == 0 || errno == EINVAL || errno == EROFS;
  return synced ? Close() : FileError(path_, "cannot be synced to disk", errno);
}

Status FileReader::Open(const std::string& path) {
  path_ = path;
  file_.reset(std::fopen(path.c_str(), "rbe"));
  if (file_ == nullptr) return FileError(path, "cannot be opened", errno);
  struct stat st;
  if (fstat(fileno(file_.get()), &st) != 0) return FileError(path, "cannot be examined", errno);
  if (!S_ISREG(st.st_mode)) return DataLoss("%s is not a regular file [TD2106]", path);
  bytes_ = static_cast<uint64_t>(st.st_size);
  return OkStatus();
}

Status FileReader::Read(void* data, size_t bytes) {
  const size_t got = bytes == 0 ? 0 : std::fread(data, 1, bytes, file_.get());
  offset_ += got;
  if (got == bytes) return OkStatus();
  if (std::ferror(file_.get()) != 0) return FileError(path_, "cannot be read", errno);
  return DataLoss("%s: offset %d: the file is truncated, expected %d more bytes [TD2002]", path_,
                  offset_, bytes - got);
}

StatusOr<std::string> ReadSmallFile(const std::string& path, uint64_t bytes_max) {
  FileReader file;
  TD_RETURN_IF_ERROR(file.Open(path));
  if (file.bytes() > bytes_max) {
    return DataLoss("%s has %d bytes, expected at most %d bytes [TD2106]", path, file.bytes(),
                    bytes_max);
  }
  std::string text(file.bytes(), '\0');
  TD_RETURN_IF_ERROR(file.Read(text.data(), text.size()));
  return text;
}

Status WriteTextFile(const std::string& path, std::string_view text) {
  FileWriter file;
  TD_RETURN_IF_ERROR(file.Open(path));
  TD_RETURN_IF_ERROR(file.Write(text.data(), text.size()));
  return file.Close();
}

Status PublishFiles(const std::vector<FileToWrite>& files) {
  const auto draft_of = [](const std::string& path) {
    std::error_code error;
    const bool special =
        std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
    return special ? path : path + ".new";
  };
  std::vector<std::pair<std::string, std::string>> drafts;
  Status status;
  for (size_t i = 0; i < files.size() && status.ok(); ++i) {
    drafts.emplace_back(draft_of(files[i].path), files[i].path);
    status = files[i].write(drafts.back().first);
  }
  for (const auto& [draft, path] : drafts) {
    if (draft == path) continue;
    if (status.ok() && std::rename(draft.c_str(), path.c_str()) != 0) {
      status = FileError(path, "cannot be replaced", errno);
    }
    if (!status.ok()) std::remove(draft.c_str());
  }
  return status;
}

Status MakeDirs(const std::string& called, const std::string& dir) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> missing;  // missing directories, the innermost first
  for (fs::path at = fs::absolute(dir, error).lexically_normal();
       !at.empty() && !fs::exists(at, error) && at != at.root_path(); at = at.parent_path()) {
    missing.push_back(at);
  }
  for (auto it = missing.rbegin(); it != missing.rend(); ++it) {
    const bool last = std::next(it) == missing.rend();
    if (mkdir(it->c_str(), last ? 0700 : 0777) != 0 && errno != EEXIST) {
      return FileError(called, "cannot be made", errno);
    }
    TD_RETURN_IF_ERROR(SyncDir(it->parent_path()));
  }
  return OkStatus();
}

Status CheckWritable(const std::string& path) {
  struct stat info {};
  const bool there = stat(path.c_str(), &info) == 0;
  // The path is a pipe or a device. PublishFiles writes to it directly, so there is nothing to
  // check.
  if (there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return OkStatus();
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) {
    return FileError(path, there ? "cannot be written" : "cannot be created", errno);
  }
  if (!there) unlink(path.c_str());
  return OkStatus();
}

StatusOr<std::vector<std::string>> ListDir(const std::string& dir) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  // A range-based loop would throw an exception if the directory cannot be read to its end.
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return FileError(dir, "cannot be listed", error.value());
  return names;
}

Status SyncDir(const std::string& dir) {
  const int fd = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError(dir, "cannot be opened", errno);
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  // EINVAL is no error here: the file system does not support fsync of a directory and does not
  // need it.
  return error == 0 || error == EINVAL ? OkStatus() : FileError(dir, "cannot be synced", error);
}

}  // namespace tandem
