#include "pserver/replication/log_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "pserver/wire/log_record.h"

namespace tandem::pserver {
namespace {

constexpr size_t kReplicasMax = 64;
constexpr Duration kReplicaSilence = std::chrono::seconds(10);  // then a replica is gone
// Time for which a repeated request for the first part gets the same checkpoint. The caller of a
// request that had to wait longer than its time limit finds the checkpoint that was written for it.
constexpr Duration kReopen = std::chrono::seconds(60);
// Time for which a written checkpoint serves others, unless writing it took longer.
constexpr Duration kShared = std::chrono::seconds(10);
constexpr size_t kReplyBytes = 4 << 20;  // size at which a reply gets no further entry
constexpr size_t kPartBytes = 4 << 20;   // size of a part of a checkpoint in bytes
// Maximum size of a reply with more than one entry; a message has at most 1 GiB.
constexpr size_t kReplyBytesMax = size_t{512} << 20;

std::shared_ptr<const std::string> BytesOf(const LogEntry& entry) {
  const codec::EncodedMessage message = EncodeLogEntry(entry);
  auto bytes = std::make_shared<std::string>();
  for (const codec::EncodedMessage::Piece& p : message.pieces) {
    if (p.data != nullptr) {
      bytes->append(static_cast<const char*>(p.data), p.bytes);
    } else {
      bytes->append(p.owned);
    }
  }
  return bytes;
}

}  // namespace

LogSource::LogSource(Options options, Storage& storage, const Clock& clock)
    : options_(std::move(options)), storage_(storage), clock_(clock), write_times_(clock.Now()) {
  TD_REQUIRE(options_.standbys >= 0 && storage.files() != nullptr);
  TD_REQUIRE(options_.member >= 0 && options_.member <= options_.standbys);
}

LogSource::~LogSource() { Close(); }

void LogSource::BeginTerm(const LogTerm& term, uint64_t last,
                          std::optional<Predecessor> predecessor) {
  MutexLock lock(mu_);
  TD_REQUIRE(term.history != 0 && (term_.history == 0 || term.After(term_)));
  TD_REQUIRE(!predecessor || predecessor->last <= std::max(last_, last));
  paused_ = false;
  term_ = term;
  predecessor_ = predecessor;
  last_ = std::max(last_, last);
  write_times_.Begin(last_, clock_.Now());
  replicated_ = 0;
  window_.clear();
  window_bytes_ = 0;
  for (auto& [number, follower] : followers_) follower.stored.reset();
  for (auto& [incarnation, replica] : replicas_) replica.stored.reset();
  RaiseReplicated();
  changed_.NotifyAll();
}

void LogSource::Pause() {
  MutexLock lock(mu_);
  TD_REQUIRE(term_.history != 0);
  paused_ = true;
  changed_.NotifyAll();
}

void LogSource::Resume() {
  MutexLock lock(mu_);
  paused_ = false;
}

void LogSource::OnWritten(std::span<const LogEntry> entries) {
  {
    MutexLock lock(mu_);
    if (!replicas_.empty()) ForgetLostReplicas();
    if (followers_.empty() && replicas_.empty()) {  // a later follower reads the store
      window_.clear();
      window_bytes_ = 0;
      write_times_.Add(last_ + 1, clock_.Now());
      for (const LogEntry& entry : entries) last_ = std::max(last_, entry.number);
      RaiseReplicated();
      return;
    }
  }
  std::vector<std::shared_ptr<const std::string>> encoded;
  for (const LogEntry& entry : entries) encoded.push_back(BytesOf(entry));
  const Time now = clock_.Now();
  MutexLock lock(mu_);
  write_times_.Add(last_ + 1, now);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].number <= last_) continue;  // BeginTerm has counted the entry
    if (entries[i].number != last_ + 1) {      // a restored snapshot has a later number
      window_.clear();
      window_bytes_ = 0;
    }
    last_ = entries[i].number;
    window_bytes_ += encoded[i]->size();
    window_.push_back(std::move(encoded[i]));
  }
  while (window_bytes_ > options_.window_bytes_max && window_.size() > 1) {
    window_bytes_ -= window_.front()->size();
    window_.pop_front();
  }
  RaiseReplicated();
  changed_.NotifyAll();
}

Status LogSource::CheckOpen() const {
  if (closed_) return Unavailable("the primary stops");
  if (paused_) return Unavailable("the primary restores a checkpoint; hint: try again later");
  return OkStatus();
}

StatusOr<LogSource::Follower*> LogSource::FollowerOf(int member, uint64_t incarnation) {
  TD_RETURN_IF_ERROR(CheckOpen());
  if (member == kReplica) return ReplicaOf(incarnation);
  if (member < 0 || member > options_.standbys || member == options_.member) {
    return InvalidArgument(
        "member %d of a server with %d standbys cannot have a standby with the number %d [TD4028]; "
        "hint: number the members of a server from 0 to %d",
        options_.member, options_.standbys, member, options_.standbys);
  }
  Follower& follower = followers_[member];
  if (incarnation < follower.incarnation) {
    return FailedPrecondition(
        "another process is member %d, and it was started later [TD4028]; hint: give each member "
        "of a server a different number",
        member);
  }
  if (incarnation > follower.incarnation) follower = {.incarnation = incarnation};
  follower.heard = clock_.Now();
  return &follower;
}

StatusOr<LogSource::Follower*> LogSource::ReplicaOf(uint64_t incarnation) {
  const Time now = clock_.Now();
  if (!replicas_.contains(incarnation)) {
    ForgetLostReplicas();
    if (replicas_.size() >= kReplicasMax) {
      return ResourceExhausted(
          "%d replicas follow this server, which is its maximum [TD4028]; hint: follow another "
          "server of the job, or end some replicas",
          replicas_.size());
    }
  }
  Follower& replica = replicas_[incarnation];
  replica.incarnation = incarnation;
  replica.heard = now;
  return &replica;
}

bool LogSource::Continues(const LogFetch& request) const {
  return request.has_state && HasEntry(request.term, request.after);
}

bool LogSource::HasEntry(const LogTerm& term, uint64_t number) const {
  if (term == term_) return number <= last_;
  return predecessor_ && term == predecessor_->term && number <= predecessor_->last;
}

StatusOr<LogTerm> LogSource::CurrentTerm() const {
  MutexLock lock(mu_);
  TD_RETURN_IF_ERROR(CheckOpen());
  return term_;
}

bool LogSource::Contains(const LogTerm& term, uint64_t number) const {
  MutexLock lock(mu_);
  // A position with this term comes from this process, which gives only logged positions. The
  // source may receive these entries later than the reader.
  return term == term_ || HasEntry(term, number);
}

Status LogSource::CheckState(const LogFetch& request) const {
  if (!request.has_state || request.member == kReplica) return OkStatus();
  if (request.term.history != term_.history) {
    return FailedPrecondition(
        "the standby has the state of another history than this primary, which has begun without "
        "it [TD4029]; hint: promote the standby, or remove its directory if its state is not "
        "needed");
  }
  if (request.term.After(term_)) {
    return FailedPrecondition(
        "a standby was promoted: it has term %d, and this server has term %d [TD4029]; hint: stop "
        "this server, or start it as a standby of the promoted server",
        request.term.number, term_.number);
  }
  const bool same = request.term == term_;
  const bool before = predecessor_ && predecessor_->restarted && request.term == predecessor_->term;
  const uint64_t last = same ? last_ : before ? predecessor_->last : request.after;
  if (request.after <= last) return OkStatus();
  return FailedPrecondition(
      "this primary has lost log entries: it has %d, and the standby has %d [TD4029]; hint: "
      "promote the standby",
      last, request.after);
}

uint64_t LogSource::Replicated() const {
  if (options_.standbys == 0) return last_;
  // This server has each entry, so (standbys + 1) / 2 of the standbys complete a majority.
  std::vector<uint64_t> stored;
  for (const auto& [number, follower] : followers_) {
    if (follower.stored) stored.push_back(*follower.stored);
  }
  const size_t needed = Needed();
  TD_REQUIRE(needed >= 1);
  if (stored.size() < needed) return 0;
  std::nth_element(stored.begin(), stored.begin() + static_cast<ptrdiff_t>(needed) - 1,
                   stored.end(), std::greater<>());
  return stored[needed - 1];
}

size_t LogSource::Needed() const { return static_cast<size_t>((options_.standbys + 1) / 2); }

bool LogSource::CountsMajority() const {
  const auto current =
      std::ranges::count_if(followers_, [](const auto& f) { return f.second.stored.has_value(); });
  return static_cast<size_t>(current) >= Needed();
}

uint64_t LogSource::LastFor(const LogFetch& request) const {
  return request.member == kReplica ? replicated_ : last_;
}

uint64_t LogSource::RaiseReplicated() {
  const uint64_t now = Replicated();
  if (now <= replicated_) return now;
  replicated_ = now;
  if (!replicas_.empty() || awaiting_ != 0) changed_.NotifyAll();
  return now;
}

Status LogSource::AwaitStandbys(Time deadline) {
  MutexLock lock(mu_);
  TD_REQUIRE(awaiting_ >= 0);
  ++awaiting_;
  const uint64_t newest = last_;
  Status status;
  // A term without entries has last_ = 0. Then, too, a standby must have the state.
  while (options_.standbys != 0 && status.ok() && (replicated_ < newest || !CountsMajority())) {
    if (closed_) status = Unavailable("the primary stops");
    if (status.ok() && !changed_.WaitUntil(mu_, deadline)) {
      status = DeadlineExceeded(
          "the state was restored on the primary, but its standbys do not have it yet, so the loss "
          "of the primary would undo the restore [TD4029]; hint: wait until tandem status shows "
          "standbys that follow, then restore again");
    }
  }
  --awaiting_;
  return status;
}

void LogSource::ForgetLostReplicas() {
  const Time now = clock_.Now();
  std::erase_if(replicas_, [&](const auto& r) { return now - r.second.heard > kReplicaSilence; });
}

Status LogSource::AwaitReplicated(uint64_t number) {
  const Time deadline = SteadyNow() + options_.replica_wait;
  bool in_time = true;
  while (in_time && CheckOpen().ok() && replicated_ < number) {
    in_time = changed_.WaitUntil(mu_, deadline);
  }
  if (!in_time && replicated_ < number) {
    return Unavailable(
        "no replica gets a checkpoint yet: a majority of the server and its standbys has entry %d, "
        "and the checkpoint needs entry %d [TD4028]; hint: start the standbys that are away",
        replicated_, number);
  }
  return CheckOpen();
}

StatusOr<FetchedLog> LogSource::Fetch(const LogFetch& request, Time deadline) {
  uint64_t replicated = 0;
  {
    MutexLock lock(mu_);
    TD_ASSIGN_OR_RETURN(Follower* const follower, FollowerOf(request.member, request.incarnation));
    TD_RETURN_IF_ERROR(CheckState(request));
    follower->stored.reset();
    NoteState(request, follower);
    if (Continues(request)) {
      follower->stored = request.after;
      follower->checkpoint = nullptr;  // may lack entries that the standby acknowledges now
    }
    replicated = RaiseReplicated();
  }
  if (options_.on_replicated) options_.on_replicated(replicated);
  FetchedLog fetched;
  {
    MutexLock lock(mu_);
    while (CheckOpen().ok() && Continues(request) && request.after >= LastFor(request)) {
      if (!changed_.WaitUntil(mu_, deadline)) break;
    }
    TD_RETURN_IF_ERROR(CheckOpen());
    fetched.term = term_;
    fetched.last = LastFor(request);
    fetched.needs_checkpoint = !Continues(request);
    if (fetched.needs_checkpoint || request.after >= fetched.last) {
      // A replica must not take itself for current while this server does not know which entries
      // it may have.
      if (fetched.last == 0) fetched.last = last_;
      return fetched;
    }
    if (AddFromWindow(request.after, &fetched)) return fetched;
  }
  TD_ASSIGN_OR_RETURN(const bool found, AddFromStore(request.after, &fetched));
  fetched.needs_checkpoint = !found;
  return fetched;
}

bool LogSource::AddFromWindow(uint64_t after, FetchedLog* fetched) const {
  TD_REQUIRE(after < last_ && window_.size() <= last_);
  const uint64_t begin = last_ + 1 - window_.size();  // number of the first entry in the window
  if (after + 1 < begin || fetched->last < begin) return false;
  size_t bytes = 0;
  const size_t end = window_.size() - (last_ - fetched->last);
  for (size_t i = after + 1 - begin; i < end && bytes < kReplyBytes; ++i) {
    const std::shared_ptr<const std::string>& entry = window_[i];
    if (bytes != 0 && bytes + entry->size() > kReplyBytesMax) break;
    fetched->entries.push_back(entry);
    bytes += entry->size();
  }
  return true;
}

StatusOr<bool> LogSource::AddFromStore(uint64_t after, FetchedLog* fetched) const {
  TD_ASSIGN_OR_RETURN(const std::optional<LogBreak> unfinished, storage_.UnfinishedRestore());
  // The entries after the break are changes of another state than the follower has.
  if (unfinished && after <= unfinished->number) return false;
  size_t bytes = 0;
  bool full = false;
  const Status read = storage_.ReadLog(after, [&](const LogEntry& entry) -> Status {
    // The store may have entries that OnWritten has not added yet.
    full = bytes >= kReplyBytes || entry.number > fetched->last;
    if (full) return Aborted("the reply is full");
    auto encoded = BytesOf(entry);
    full = bytes != 0 && bytes + encoded->size() > kReplyBytesMax;
    if (full) return Aborted("the reply is full");
    bytes += encoded->size();
    fetched->entries.push_back(std::move(encoded));
    return OkStatus();
  });
  if (full || read.ok()) return !fetched->entries.empty();
  // A checkpoint has removed the next entry.
  if (read.code() == StatusCode::kDataLoss && fetched->entries.empty()) return false;
  return read;
}

void LogSource::NoteState(const LogFetch& request, Follower* follower) const {
  const bool same = follower->has_state && follower->after == request.after;
  follower->has_state = request.has_state;
  follower->after = request.after;
  if (!request.has_state) {
    follower->changed = Time::max();
  } else if (!same) {
    follower->changed = clock_.Now();
  }
}

bool LogSource::IsRecent(const Follower& follower, bool renew) const {
  if (!saved_ || saved_->term != term_) return false;
  const Duration age = clock_.Now() - saved_->ended;
  if (age >= std::max(kShared, saved_->ended - saved_->began)) return false;
  // A standby may have acknowledged entries until its state last changed.
  return !renew || saved_->began > follower.changed;
}

StatusOr<OpenedCheckpoint> LogSource::OpenNewest(const LogTerm& term, bool renew, bool recent) {
  const auto save = [&]() -> Status {
    const Time began = clock_.Now();
    TD_RETURN_IF_ERROR(options_.save());
    MutexLock lock(mu_);
    saved_ = {term, began, clock_.Now()};
    return OkStatus();
  };
  if (!recent && (renew || (options_.outdated && options_.outdated()))) {
    const Status saved = save();
    LOG_IF(WARNING, !saved.ok()) << "a standby gets the old checkpoint: " << saved.message();
  }
  StatusOr<OpenedCheckpoint> opened = storage_.files()->OpenCheckpoint();
  if (opened.ok() || opened.status().code() != StatusCode::kFailedPrecondition) return opened;
  TD_RETURN_IF_ERROR(save());
  return storage_.files()->OpenCheckpoint();
}

Status LogSource::OpenFor(int member, uint64_t incarnation, CheckpointPart* part) {
  const bool replica = member == kReplica;
  bool renew = false, recent = false;
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(FollowerOf(member, incarnation).status());
    // Without a majority, nothing is written, because no replica could get it.
    if (replica) TD_RETURN_IF_ERROR(AwaitReplicated(last_));
    TD_ASSIGN_OR_RETURN(Follower* const follower, FollowerOf(member, incarnation));
    part->term = term_;
    if (follower->checkpoint != nullptr && follower->checkpoint_term == term_ &&
        clock_.Now() - follower->opened < kReopen) {
      part->record = follower->record;
      return replica ? AwaitReplicated(follower->checkpoint_last) : OkStatus();
    }
    // A further call must not occupy a further thread while a checkpoint is being written.
    if (opening_) return Unavailable("the checkpoint is being opened");
    opening_ = true;
    renew = follower->has_state && !replica;
    recent = IsRecent(*follower, renew);
  }
  StatusOr<OpenedCheckpoint> opened = OpenNewest(part->term, renew, recent);
  MutexLock lock(mu_);
  TD_REQUIRE(opening_);
  opening_ = false;
  TD_RETURN_IF_ERROR(opened.status());
  const uint64_t last = last_;
  TD_ASSIGN_OR_RETURN(Follower* const follower, FollowerOf(member, incarnation));
  part->record = opened->record;
  follower->checkpoint = std::make_shared<const OpenedCheckpoint>(*std::move(opened));
  follower->checkpoint_term = part->term;
  follower->checkpoint_last = last;
  follower->record = part->record;
  follower->opened = clock_.Now();
  return replica ? AwaitReplicated(last) : OkStatus();
}

StatusOr<CheckpointPart> LogSource::FetchCheckpoint(int member, uint64_t incarnation,
                                                    uint64_t offset) {
  CheckpointPart part;
  if (offset == 0) TD_RETURN_IF_ERROR(OpenFor(member, incarnation, &part));
  std::shared_ptr<const OpenedCheckpoint> checkpoint;
  {
    MutexLock lock(mu_);
    TD_ASSIGN_OR_RETURN(Follower* const follower, FollowerOf(member, incarnation));
    checkpoint = follower->checkpoint;
    if (checkpoint == nullptr || offset > checkpoint->bytes || follower->checkpoint_term != term_) {
      return FailedPrecondition(
          "the standby has not begun to fetch this checkpoint; hint: begin at offset 0");
    }
    part.term = term_;
    // A first part may be requested again. A small checkpoint has only that part.
    if (offset != 0 && offset + kPartBytes >= checkpoint->bytes) follower->checkpoint = nullptr;
  }
  part.bytes = checkpoint->bytes;
  part.content.resize(std::min<uint64_t>(kPartBytes, checkpoint->bytes - offset));
  const ssize_t got = pread(checkpoint->values.get(), part.content.data(), part.content.size(),
                            static_cast<off_t>(offset));
  if (got == static_cast<ssize_t>(part.content.size())) return part;
  return DataLoss("cannot read the checkpoint for a standby: %s [TD2111]",
                  got < 0 ? ErrnoText(errno) : "the file has fewer bytes than before");
}

LogTerm LogSource::term() const {
  MutexLock lock(mu_);
  return term_;
}

bool LogSource::AllReplicated() const {
  MutexLock lock(mu_);
  return replicated_ >= last_;
}

std::vector<StandbyInfo> LogSource::standbys() const {
  MutexLock lock(mu_);
  const Time now = clock_.Now();
  std::vector<StandbyInfo> infos;
  for (const auto& [member, follower] : followers_) {
    StandbyInfo info{.member = member, .current = follower.stored.has_value()};
    info.silent = std::max(Duration(), now - follower.heard);
    if (follower.stored) FillLag(*follower.stored, &info);
    infos.push_back(info);
  }
  return infos;
}

int LogSource::replicas() const {
  MutexLock lock(mu_);
  const Time now = clock_.Now();
  return static_cast<int>(std::ranges::count_if(
      replicas_, [&](const auto& r) { return now - r.second.heard <= kReplicaSilence; }));
}

void LogSource::FillLag(uint64_t stored, StandbyInfo* info) const {
  info->stored = stored;
  if (stored >= last_) return;
  info->lag_entries = last_ - stored;
  const size_t missing = std::min<size_t>(info->lag_entries, window_.size());
  for (size_t i = window_.size() - missing; i < window_.size(); ++i) {
    info->lag_bytes += window_[i]->size();
  }
  info->lag_time = std::max(Duration(), clock_.Now() - write_times_.Earliest(stored + 1));
}

void LogSource::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

}  // namespace tandem::pserver
