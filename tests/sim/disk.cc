#include "tests/sim/disk.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "pserver/wire/log_record.h"
#include "tests/sim/bytes.h"

namespace tandem::pserver {
namespace {

Status Gone() { return Unavailable("the process is dead"); }

}  // namespace

Status SimDisk::Begin(uint64_t session, bool writes) {
  if (session != session_) return Gone();
  if (operations_left_ && *operations_left_ == 0 && !die_behind_) {
    operations_left_.reset();
    kill_();
    if (session != session_) return Gone();
  }
  if (writes && world_.Now() < full_until_) return ResourceExhausted("the disk is full");
  return OkStatus();
}

Status SimDisk::End(uint64_t session) {
  if (!operations_left_) return OkStatus();
  if ((*operations_left_)-- != 0) return OkStatus();
  operations_left_.reset();
  kill_();
  return session == session_ ? OkStatus() : Gone();
}

class SimDisk::Session final : public Storage, public CheckpointFiles {
 public:
  Session(SimDisk& disk, uint64_t id) : disk_(disk), id_(id) {}

  StatusOr<size_t> Write(const ShardSnapshot& image) override {
    TD_RETURN_IF_ERROR(disk_.Begin(id_));
    disk_.world_.Note("checkpoint", image.version, image.log_number);
    disk_.checkpoint_ = image;
    disk_.cuts_of_checkpoint_.clear();
    for (const auto& [number, cut] : disk_.cuts_) disk_.cuts_of_checkpoint_.insert(number);
    if (disk_.forget_previous_) disk_.checkpoint_->has_previous = false;
    disk_.log_.erase(disk_.log_.begin(), disk_.log_.upper_bound(image.log_number));
    // The snapshot may include pushes that are not in the recorded log. The order of these pushes
    // is unknown, so the snapshot becomes the new base of the recorded order.
    if (!disk_.base_ || !disk_.history_.contains(image.log_number)) disk_.base_ = image;
    // The log has all entries in one sequence, so this sync includes all earlier entries.
    if (!disk_.history_.empty()) disk_.synced_ = disk_.history_.rbegin()->first;
    TD_RETURN_IF_ERROR(disk_.End(id_));
    return image.bytes();
  }
  StatusOr<bool> Read(SnapshotSink& taker) override {
    if (!disk_.checkpoint_) return false;
    TD_RETURN_IF_ERROR(SendChunks(*disk_.checkpoint_, taker));
    return true;
  }

  StatusOr<size_t> WriteGlobalSnapshot(const SnapshotName& name, const ShardSnapshot& image,
                                       std::span<const uint64_t> removed) override {
    TD_RETURN_IF_ERROR(disk_.Begin(id_));
    disk_.world_.Note("cut written", name.number, image.version);
    for (const uint64_t number : removed) disk_.cuts_.erase(number);
    disk_.cuts_[name.number] = image;
    if (!disk_.history_.empty()) disk_.synced_ = disk_.history_.rbegin()->first;
    TD_RETURN_IF_ERROR(disk_.End(id_));
    return image.bytes();
  }
  Status ReadGlobalSnapshot(uint64_t cut, SnapshotSink& taker) override {
    const auto it = disk_.cuts_.find(cut);
    return it == disk_.cuts_.end() ? NotFound("no snapshot %d", cut)
                                   : SendChunks(it->second, taker);
  }
  StatusOr<std::vector<StoredGlobalSnapshot>> GlobalSnapshots() override {
    std::vector<StoredGlobalSnapshot> cuts;
    for (const auto& [cut, image] : disk_.cuts_) cuts.push_back({cut, image.version});
    return cuts;
  }

  StatusOr<size_t> AppendLog(std::span<const LogEntry> entries, bool sync) override {
    TD_RETURN_IF_ERROR(disk_.Begin(id_));
    size_t bytes = 0;
    for (const LogEntry& entry : entries) {
      std::string record = Flat(EncodeLogEntry(entry));
      disk_.world_.Note("log", entry.number, Crc32c(0, record.data(), record.size()));
      bytes += record.size();
      disk_.history_[entry.number] = record;
      disk_.log_[entry.number] = std::move(record);
    }
    if (sync && !entries.empty()) disk_.synced_ = entries.back().number;
    TD_RETURN_IF_ERROR(disk_.End(id_));
    return bytes;
  }
  Status CheckRoom(uint64_t /*bytes*/) override {
    if (id_ != disk_.session_) return Gone();
    return disk_.world_.Now() < disk_.full_until_ ? ResourceExhausted("the disk is full")
                                                  : OkStatus();
  }
  Status SyncLog() override {
    TD_RETURN_IF_ERROR(disk_.Begin(id_, /*writes=*/false));
    if (!disk_.history_.empty()) disk_.synced_ = disk_.history_.rbegin()->first;
    return disk_.End(id_);
  }
  Status ReadLog(uint64_t after, const std::function<Status(LogEntry)>& take) override {
    uint64_t expected = after + 1;
    for (auto it = disk_.log_.lower_bound(expected); it != disk_.log_.end(); ++it, ++expected) {
      if (it->first != expected)
        return DataLoss("entry %d of the write-ahead log is missing", expected);
      TD_ASSIGN_OR_RETURN(LogEntry entry, DecodeLogEntry(expected, it->second));
      TD_RETURN_IF_ERROR(take(std::move(entry)));
    }
    return OkStatus();
  }
  Status ClearLog() override {
    if (id_ != disk_.session_) return Gone();
    disk_.log_.clear();
    disk_.history_.clear();
    disk_.synced_ = 0;
    return OkStatus();
  }

  CheckpointFiles* files() override { return disk_.checkpoints_ == nullptr ? nullptr : this; }
  StatusOr<OpenedCheckpoint> OpenCheckpoint() override {
    if (!disk_.checkpoint_) return NotFound("no checkpoint");
    std::vector<SimCheckpoints::Opened>& all = disk_.checkpoints_->opened;
    const uint64_t index = all.size(), bytes = disk_.checkpoints_->bytes;
    all.push_back({*disk_.checkpoint_, disk_.cuts_of_checkpoint_});
    OpenedCheckpoint opened{std::to_string(index), Fd(memfd_create("values", MFD_CLOEXEC)), bytes};
    const auto offset = static_cast<off_t>(bytes - sizeof(index));
    CHECK_EQ(ssize_t{sizeof(index)}, pwrite(opened.values.get(), &index, sizeof(index), offset));
    return opened;
  }
  std::string NewValuesFile() override {
    disk_.installing_ = Fd(memfd_create("values", MFD_CLOEXEC));
    return "/proc/self/fd/" + std::to_string(disk_.installing_.get());
  }
  Status InstallCheckpoint(const std::string& record, const std::string& /*path*/,
                           const LogTerm& term) override {
    TD_RETURN_IF_ERROR(disk_.Begin(id_));
    const Fd values = std::move(disk_.installing_);
    uint64_t index = 0;
    const auto offset = static_cast<off_t>(disk_.checkpoints_->bytes - sizeof(index));
    if (pread(values.get(), &index, sizeof(index), offset) != ssize_t{sizeof(index)} ||
        record != std::to_string(index)) {
      return DataLoss("the file of values does not belong to the record %s", record);
    }
    const SimCheckpoints::Opened& opened = disk_.checkpoints_->opened.at(index);
    disk_.checkpoint_ = disk_.base_ = opened.image;
    disk_.cuts_of_checkpoint_ = opened.cuts;
    std::erase_if(disk_.cuts_,
                  [&opened](const auto& cut) { return !opened.cuts.contains(cut.first); });
    disk_.world_.Note("install", disk_.checkpoint_->version, disk_.checkpoint_->log_number);
    disk_.log_.clear();
    disk_.history_.clear();
    disk_.synced_ = disk_.checkpoint_->log_number;
    disk_.term_ = term;
    disk_.complete_ = false;
    return disk_.End(id_);
  }
  StatusOr<bool> Complete() override { return disk_.complete_; }
  Status SetComplete() override {
    TD_RETURN_IF_ERROR(disk_.Begin(id_));
    disk_.world_.Note("complete");
    disk_.complete_ = true;
    return disk_.End(id_);
  }
  StatusOr<LogTerm> Term() override { return disk_.term_; }
  Status SetTerm(const LogTerm& term) override {
    TD_RETURN_IF_ERROR(disk_.Begin(id_));
    disk_.world_.Note("term", term.number, term.start);
    disk_.term_ = term;
    return disk_.End(id_);
  }

 private:
  SimDisk& disk_;
  const uint64_t id_;
};

std::unique_ptr<Storage> SimDisk::Open() {
  session_ = ++sessions_;
  return std::make_unique<Session>(*this, session_);
}

void SimDisk::Revoke() {
  session_ = 0;
  operations_left_.reset();
}

void SimDisk::LosePower() {
  uint64_t last = synced_;
  while (history_.contains(last + 1) && world_.Chance(0.5)) ++last;
  log_.erase(log_.upper_bound(last), log_.end());
  history_.erase(history_.upper_bound(last), history_.end());
  synced_ = last;
}

void SimDisk::Clear() {
  base_.reset();
  checkpoint_.reset();
  cuts_.clear();
  log_.clear();
  history_.clear();
  term_ = {};
  complete_ = true;
  synced_ = 0;
}

void SimDisk::DieIn(uint64_t operations, std::function<void()> kill) {
  operations_left_ = operations;
  die_behind_ = world_.Chance(0.5);
  kill_ = std::move(kill);
}

void SimDisk::Sent(const std::string& request) {
  std::string record(1, static_cast<char>(LogKind::kPush));
  codec::PutFixed32(record, Crc32c(0, request.data(), request.size()));
  record += request;
  const StatusOr<LogEntry> entry = DecodeLogEntry(1, record);
  CHECK(entry.ok()) << entry.status();
  const PushHead& head = std::get<PushRecord>(entry->record).head;
  sent_[{head.caller.trainer, head.caller.incarnation, head.sequence}] = std::move(record);
}

std::vector<LogEntry> SimDisk::History() const {
  std::vector<LogEntry> entries;
  for (const auto& [number, record] : history_) {
    if (number <= base_->log_number) continue;
    StatusOr<LogEntry> entry = DecodeLogEntry(number, record);
    CHECK(entry.ok()) << entry.status();
    if (const auto* const order = std::get_if<OrderRecord>(&entry->record)) {
      const CallerId& caller = order->header.caller;
      entry = DecodeLogEntry(
          number, sent_.at({caller.trainer, caller.incarnation, order->header.sequence}));
      CHECK(entry.ok()) << entry.status();
    }
    entries.push_back(*std::move(entry));
  }
  return entries;
}

}  // namespace tandem::pserver
