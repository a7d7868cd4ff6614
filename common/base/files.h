// Files: errors that name the path, synced where they must last.
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

// What the error number `error` of a call on `path` means: NOT_FOUND, PERMISSION_DENIED,
// RESOURCE_EXHAUSTED (the disk is full, or a limit of the process is reached), INVALID_ARGUMENT (it
// is a folder), ALREADY_EXISTS, else DATA_LOSS. `what`: "cannot be created".
Status FileError(const std::string& path, const char* what, int error);

// Writes a new file. Removes nothing: an unfinished file stays for the caller to clean up.
class FileWriter {
 public:
  FileWriter() = default;
  ~FileWriter();  // closes, without syncing
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Creates or empties `path` (mode 0644 less the umask).
  Status Open(const std::string& path);
  // RESOURCE_EXHAUSTED when the disk is full.
  Status Write(const void* data, size_t bytes);
  Status Close();
  // Data are on the disk when this returns OK.
  Status SyncAndClose();

 private:
  std::string path_;
  int fd_ = -1;
};

// Reads a file from its beginning.
class FileReader {
 public:
  // NOT_FOUND, PERMISSION_DENIED or DATA_LOSS; refuses what is not a regular file.
  Status Open(const std::string& path);
  uint64_t bytes() const { return bytes_; }  // when it was opened
  // Exactly `bytes`; DATA_LOSS when the file ends before.
  Status Read(void* data, size_t bytes);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  uint64_t bytes_ = 0, offset_ = 0;
};

// The whole file, at most `bytes_max` bytes (else DATA_LOSS).
StatusOr<std::string> ReadSmallFile(const std::string& path, uint64_t bytes_max);

// Writes or replaces a file, which is not synced.
Status WriteTextFile(const std::string& path, std::string_view text);

struct FileToWrite {
  std::string path;
  std::function<Status(const std::string& path)> write;  // to the path that it is given
};
// Writes files and puts them in the place of those that are there, once all are written; when one
// cannot be written, all stay as they were. What is no regular file (/dev/stdout) is written in
// place.
Status PublishFiles(const std::vector<FileToWrite>& files);

// Makes `dir` and the folders above it that are missing; their names are durable afterwards.
// `dir` gets mode 0700, a folder above it the mode of the umask. Errors name `called`.
Status MakeFolders(const std::string& called, const std::string& dir);

// OK when a file can be written at `path`, as far as can be known before: its folder is there, and
// rights allow it. Leaves the file as it is; one that is absent stays absent.
Status CheckWritable(const std::string& path);

// Makes creations and renames in `dir` permanent.
Status SyncDir(const std::string& dir);

}  // namespace tandem
