#include "collective/rendezvous/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "collective/rendezvous/rendezvous_store.h"
#include "common/os/fd.h"

namespace tandem::collective {
namespace {

// Locks the whole file. Returns false if another open file description holds the lock, in this
// process or in another one. The lock ends when `fd` is closed.
StatusOr<bool> TryLock(int fd, const std::string& path) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return FailedPrecondition(
      "cannot lock %s: %s [TD3010]; hint: use a directory on a file system that supports locks on "
      "all hosts",
      path, ErrnoText(errno));
}

// Returns whether another open file description holds the lock of TryLock.
StatusOr<bool> IsLocked(int fd, const std::string& path) {
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  if (::fcntl(fd, F_OFD_GETLK, &lock) == 0) return lock.l_type != F_UNLCK;
  return FailedPrecondition(
      "cannot read the locks of %s: %s [TD3010]; hint: use a directory on a file system that "
      "supports locks on all hosts",
      path, ErrnoText(errno));
}

constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;

Status CannotWrite(const std::string& path) {
  return PermissionDenied(
      "cannot write %s: %s [TD3010]; hint: create the directory, and give this process the right "
      "to write in it",
      path, ErrnoText(errno));
}

class FileStore final : public RendezvousStore {
 public:
  FileStore(const std::string& dir, std::string job, std::string secret)
      : job_(std::move(job)),
        secret_(std::move(secret)),
        path_(dir + "/" + FileNameOf(job_) + ".rank0"),
        lock_path_(dir + "/" + FileNameOf(job_) + ".lock") {}
  ~FileStore() override {
    // Removes the file before its lock is released.
    if (announced_.valid()) ::unlink(path_.c_str());
  }

  Status Announce(const Meeting& meeting, Time deadline) override;
  StatusOr<Meeting> Find(Time deadline) override;
  std::string name() const override { return path_; }

 private:
  // Writes the announcement to the file `draft` and renames the file to path_. So the file is
  // complete and locked when it becomes visible.
  Status Publish(const std::string& draft, const std::string& text);
  // Reads the announcement. Sets `alive` to whether the process that wrote it still runs.
  // NOT_FOUND: there is no announcement.
  Status Read(std::string* text, bool* alive) const;

  const std::string job_, secret_;
  const std::string path_, lock_path_;
  // The open files of rank 0: JOB.lock and JOB.rank0. Rank 0 holds locks on both files while other
  // ranks can find rank 0.
  Fd place_, announced_;
};

Status FileStore::Read(std::string* text, bool* alive) const {
  const Fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid() && errno == ENOENT) {
    return NotFound("rank 0 has not announced its address in %s yet", path_);
  }
  if (!fd.valid()) return PermissionDenied("cannot read %s: %s [TD3010]", path_, ErrnoText(errno));
  std::array<char, 4096> page;
  const ssize_t n = ::pread(fd.get(), page.data(), page.size(), 0);
  if (n < 0) return Unavailable("cannot read %s: %s [TD3010]", path_, ErrnoText(errno));
  text->assign(page.data(), static_cast<size_t>(n));
  TD_ASSIGN_OR_RETURN(*alive, IsLocked(fd.get(), path_));
  return OkStatus();
}

Status FileStore::Announce(const Meeting& meeting, Time) {
  place_ = Fd(::open(lock_path_.c_str(), kFlags, 0600));
  if (!place_.valid()) return CannotWrite(lock_path_);
  TD_ASSIGN_OR_RETURN(const bool free, TryLock(place_.get(), lock_path_));
  if (!free) {
    place_.Reset();
    std::string text;
    bool alive = false;
    const Status read = Read(&text, &alive);
    const StatusOr<Announcement> other = read.ok() ? ReadUnverified(text) : read;
    return AlreadyExists(
        "another process is already rank 0 in %s%s [TD3008]; hint: stop that process, or use "
        "another rendezvous",
        path_, other.ok() ? ": " + other->Who() : "");
  }
  const std::string draft = path_ + ".new";
  Status status =
      Publish(draft, SignedText(MakeAnnouncement(job_, meeting.address, meeting.meeting), secret_));
  if (!status.ok()) ::unlink(draft.c_str());
  return status;
}

Status FileStore::Publish(const std::string& draft, const std::string& text) {
  announced_ = Fd(::open(draft.c_str(), kFlags | O_TRUNC, 0600));
  if (!announced_.valid()) return CannotWrite(draft);
  const bool written =
      ::write(announced_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(announced_.get()) == 0;
  if (!written) return CannotWrite(draft);
  TD_RETURN_IF_ERROR(TryLock(announced_.get(), draft).status());
  if (::rename(draft.c_str(), path_.c_str()) != 0) return CannotWrite(path_);
  return OkStatus();
}

StatusOr<Meeting> FileStore::Find(Time) {
  std::string text;
  bool alive = false;
  TD_RETURN_IF_ERROR(Read(&text, &alive));
  if (!alive) {
    const StatusOr<Announcement> left = ReadUnverified(text);
    return NotFound("%s was written by %s, which no longer runs", path_,
                    left.ok() ? left->Who() : std::string("an unknown process"));
  }
  const StatusOr<Announcement> announcement = ReadSignedText(text, job_, secret_);
  if (!announcement.ok()) return Annotate(announcement.status(), path_);
  return Meeting(announcement->address, announcement->meeting);
}

}  // namespace

std::unique_ptr<RendezvousStore> MakeFileStore(const std::string& dir, const std::string& job,
                                               const std::string& secret) {
  return std::make_unique<FileStore>(dir, job, secret);
}

}  // namespace tandem::collective
