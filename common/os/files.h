// Reads and writes files. Errors name the path, and files that must last are synced.
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

// Converts errno `error` of a call on `path`. `what` is a phrase such as "cannot be created".
// NOT_FOUND, PERMISSION_DENIED, ALREADY_EXISTS: as the names say. RESOURCE_EXHAUSTED: the disk is
// full, or the process has reached a limit. INVALID_ARGUMENT: the path is a directory. DATA_LOSS:
// any other error.
Status FileError(const std::string& path, const char* what, int error);

// Writes a new file. Not thread-safe. Removes nothing: the caller must delete an unfinished file.
class FileWriter {
 public:
  FileWriter() = default;
  ~FileWriter();  // closes without sync
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Creates `path` or truncates it (mode 0644 minus the umask).
  Status Open(const std::string& path);
  // RESOURCE_EXHAUSTED: the disk is full.
  Status Write(const void* data, size_t bytes);
  Status Close();
  // OK means that the data are durable.
  Status SyncAndClose();

 private:
  std::string path_;
  int fd_ = -1;
};

// Reads a file from its beginning. Not thread-safe.
class FileReader {
 public:
  // NOT_FOUND, PERMISSION_DENIED or DATA_LOSS. Rejects everything except regular files.
  Status Open(const std::string& path);
  uint64_t bytes() const { return bytes_; }  // file size at Open
  // Reads exactly `bytes` bytes. DATA_LOSS: the file ends before.
  Status Read(void* data, size_t bytes);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  uint64_t bytes_ = 0, offset_ = 0;
};

// Reads the whole file. DATA_LOSS: it is larger than `bytes_max` bytes.
StatusOr<std::string> ReadSmallFile(const std::string& path, uint64_t bytes_max);

// Writes or replaces a file, without sync.
Status WriteTextFile(const std::string& path, std::string_view text);

struct FileToWrite {
  std::string path;
  std::function<Status(const std::string& path)> write;  // writes the file to the given path
};
// Writes all files to temporary paths, then renames them to their paths. If one cannot be written,
// all existing files stay unchanged. Writes in place if the path is not a regular file
// (/dev/stdout).
Status PublishFiles(const std::vector<FileToWrite>& files);

// Creates `dir` and its missing parent directories and makes their names durable. `dir` gets mode
// 0700, a parent directory the mode of the umask. Errors name `called`.
Status MakeDirs(const std::string& called, const std::string& dir);

// Returns OK if a file can be written at `path`, as far as this can be known in advance: its
// directory exists and permissions allow it. Does not change an existing file and leaves no new
// one.
Status CheckWritable(const std::string& path);

// Makes creations and renames in `dir` durable.
Status SyncDir(const std::string& dir);

}  // namespace tandem
