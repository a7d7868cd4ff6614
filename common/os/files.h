// Reads and writes files. Error messages name the path. Data are durable (fsync) only if the
// comment of the function says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// Converts the errno `error` of a call on `path` to a Status. `what` is a phrase such as "cannot be
// created". NOT_FOUND, PERMISSION_DENIED, ALREADY_EXISTS: the errno with the same meaning.
// RESOURCE_EXHAUSTED: the disk is full, or the process has reached a limit. INVALID_ARGUMENT: the
// path is a directory. DATA_LOSS: any other error.
Status FileError(const std::string& path, const char* what, int error);

// Writes a new file. Not thread-safe. After an error the caller must delete the unfinished file.
class FileWriter {
 public:
  FileWriter() = default;
  ~FileWriter();  // closes the file without fsync
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Creates the file `path`, or truncates an existing file. A new file has mode 0644 minus the
  // umask.
  Status Open(const std::string& path);
  // Appends `bytes` bytes to the file. RESOURCE_EXHAUSTED: the disk is full.
  Status Write(const void* data, size_t bytes);
  Status Close();
  // Flushes the file to the disk (fsync) and closes the file. After OK the data are durable.
  Status SyncAndClose();

 private:
  std::string path_;
  int fd_ = -1;
};

// Reads a file from its beginning. Not thread-safe.
class FileReader {
 public:
  // Opens a regular file. NOT_FOUND: there is no such file. PERMISSION_DENIED: the file is not
  // readable. DATA_LOSS: any other error; also if the path is not a regular file.
  Status Open(const std::string& path);
  uint64_t bytes() const { return bytes_; }  // size of the file when it was opened, in bytes
  // Reads exactly `bytes` bytes. DATA_LOSS: the file has fewer bytes left.
  Status Read(void* data, size_t bytes);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  uint64_t bytes_ = 0, offset_ = 0;
};

// Reads a whole file. DATA_LOSS: the file is larger than `bytes_max` bytes.
StatusOr<std::string> ReadSmallFile(const std::string& path, uint64_t bytes_max);

// Creates or replaces a file with the given text, without fsync.
Status WriteTextFile(const std::string& path, std::string_view text);

struct FileToWrite {
  std::string path;
  // Function that writes the contents of the file to `path`.
  std::function<Status(const std::string& path)> write;
};
// Writes all files to temporary paths, then renames all of them to their final paths. If one file
// cannot be written, all existing files stay unchanged. A path that is not a regular file
// (/dev/stdout) is written directly.
Status PublishFiles(const std::vector<FileToWrite>& files);

// Creates the directory `dir` and its missing parent directories, and makes the new directory
// entries durable. `dir` gets mode 0700; a new parent directory gets the mode of the umask. Error
// messages call the directory `called`.
Status MakeDirs(const std::string& called, const std::string& dir);

// Returns OK if the directory of `path` exists and the permissions allow this process to write the
// file `path`. Does not change an existing file, and leaves no new file. A later write can still
// fail, for example because the disk is full.
Status CheckWritable(const std::string& path);

// Returns the names of the entries of the directory `dir`, in no order. NOT_FOUND: there is no such
// directory.
StatusOr<std::vector<std::string>> ListDir(const std::string& dir);

// Makes earlier creations and renames of files in the directory `dir` durable.
Status SyncDir(const std::string& dir);

}  // namespace tandem
