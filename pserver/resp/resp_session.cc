#include "pserver/resp/resp_session.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "common/base/require.h"
#include "common/rpc/credentials/session_proof.h"
#include "pserver/resp/resp_info.h"
#include "pserver/shard/read_calls.h"

namespace tandem::pserver {
namespace {

// Maximum number of arguments of commands without a maximum.
constexpr size_t kAny = SIZE_MAX;
// Number of keys of EXISTS that are counted under one lock of the shard.
constexpr size_t kCountedMax = 4096;
constexpr size_t kNameShownMax = 64;  // bytes of a client's text in a message

bool EqualsUpper(std::string_view text, std::string_view upper) {
  return text.size() == upper.size() &&
         std::equal(text.begin(), text.end(), upper.begin(), [](char a, char b) {
           return std::toupper(static_cast<unsigned char>(a)) == b;
         });
}

// Returns whether an error of a pull may come from the keys of one command.
bool MayBeOfOneCommand(const Status& status) {
  return !status.ok() && !absl::IsDeadlineExceeded(status) && !absl::IsUnavailable(status) &&
         !absl::IsCancelled(status);
}

}  // namespace

RespShared::RespShared(RespTarget of, Metrics& metrics)
    : target(std::move(of)),
      memory(target.limits.memory_bytes_max),
      open_connections(
          metrics.GetGauge("tandem_pserver_resp_connections", "Open connections of Redis clients")),
      commands(
          metrics.GetCounter("tandem_pserver_resp_commands_total", "Commands of Redis clients")),
      refused(metrics.GetCounter("tandem_pserver_resp_refused_total",
                                 "Commands and connections of Redis clients that were refused")) {
  TD_REQUIRE(target.shard != nullptr && target.deadlines != nullptr);
}

RespSlot::RespSlot(std::shared_ptr<RespShared> shared) : shared_(std::move(shared)) {
  TD_REQUIRE(shared_ != nullptr);
  shared_->open_connections.Set(static_cast<double>(++shared_->connections));
}

RespSlot::~RespSlot() {
  shared_->open_connections.Set(static_cast<double>(--shared_->connections));
}

struct RespSession::Wait {
  enum : int { kPulling, kSleeping, kDone };
  std::atomic<int> state = kPulling;
  StatusOr<PullResult> result = Internal("the pull has not ended");
  std::optional<size_t> count;  // the reply is this number; nullopt: the wait is a pull
  std::function<void()> wake;
  // Reserved bytes for the values in the memory of the shard and in the output.
  std::shared_ptr<RespShared> shared;
  size_t reserved = 0;

  ~Wait() {
    if (shared != nullptr) shared->memory.Change(reserved, 0);
  }
};

RespSession::RespSession(std::shared_ptr<RespShared> shared, std::string peer,
                         std::function<void()> wake)
    : shared_(std::move(shared)),
      peer_(std::move(peer)),
      wake_(std::move(wake)),
      admitted_(shared_->target.secret.empty()) {
  TD_REQUIRE(wake_ != nullptr);
}

RespSession::~RespSession() {
  if (waiting_ != nullptr) shared_->target.shard->Leave(waiting_.get());
}

const RespSession::Command* RespSession::Find(std::string_view name) {
  static constexpr std::array<Command, 15> kCommands = {{
      {"GET", 2, 2, false, true, &RespSession::Get},
      {"MGET", 2, kAny, false, true, &RespSession::Get},
      {"HGET", 3, 3, false, true, &RespSession::HashGet},
      {"HMGET", 3, kAny, false, true, &RespSession::HashGet},
      {"HLEN", 2, 2, false, false, &RespSession::HashLength},
      {"EXISTS", 2, kAny, false, false, &RespSession::Exists},
      {"HEXISTS", 3, 3, false, false, &RespSession::HashExists},
      {"PING", 1, 2, false, false, &RespSession::Ping},
      {"ECHO", 2, 2, false, false, &RespSession::Echo},
      {"SELECT", 2, 2, false, false, &RespSession::Select},
      {"COMMAND", 1, kAny, false, false, &RespSession::ListCommands},
      {"INFO", 1, kAny, false, false, &RespSession::Info},
      {"AUTH", 2, 3, true, false, &RespSession::Auth},
      {"HELLO", 1, 7, true, false, &RespSession::Hello},
      {"QUIT", 1, 1, true, false, &RespSession::Quit},
  }};
  for (const Command& command : kCommands) {
    if (EqualsUpper(name, command.name)) return &command;
  }
  return nullptr;
}

RespSession::Step RespSession::Execute(const RespArguments& arguments, RespOutput& out) {
  TD_REQUIRE(waiting_ == nullptr);
  if (arguments.size() == 0) return Step::kReplied;
  const Step step = Dispatch(arguments, out);
  if (step != Step::kFlush) shared_->commands.Add(1);
  return step;
}

RespSession::Step RespSession::Dispatch(const RespArguments& arguments, RespOutput& out) {
  const Command* const command = Find(arguments[0]);
  if (!parts_.empty() && (command == nullptr || !command->gathers)) return Step::kFlush;
  command_ = command == nullptr ? "other" : command->name;
  if (!admitted_ && (command == nullptr || !command->before_auth)) {
    out.Error(
        "NOAUTH Authentication required. [TD6011]; hint: send AUTH with the secret of the job");
    shared_->refused.Add(1);
    Note(command_, Unauthenticated("no AUTH"));
    return Step::kReplied;
  }
  if (command == nullptr) {
    return Refuse(Unimplemented("unknown command '%s', because this server only answers reads "
                                "[TD4041]; hint: COMMAND lists the commands",
                                std::string(arguments[0].substr(0, kNameShownMax))),
                  out);
  }
  if (arguments.size() < command->least || arguments.size() > command->most) {
    if (!parts_.empty()) return Step::kFlush;
    return Refuse(InvalidArgument("wrong number of arguments for '%s' command [TD4041]",
                                  std::string(command->name)),
                  out);
  }
  return (this->*command->handler)(arguments, out);
}

RespSession::Step RespSession::Refuse(const Status& status, RespOutput& out) {
  out.Error("ERR " + std::string(status.message()));
  shared_->refused.Add(1);
  Note(command_, status);
  return Step::kReplied;
}

void RespSession::Note(std::string_view command, const Status& outcome) {
  rpc::AuditLog* const audit = shared_->target.audit;
  if (audit == nullptr) return;
  rpc::AuditRecord record;
  record.job = shared_->target.shard->Job();
  record.call = "RESP " + std::string(command);
  record.peer = peer_;
  record.proof = admitted_ && !shared_->target.secret.empty() ? "secret" : "nothing";
  record.outcome = outcome;
  audit->Add(record);
}

// ---- Connection ---------------------------------------------------------------------------------

std::string RespSession::Admit(std::string_view password) {
  const std::string& secret = shared_->target.secret;
  if (secret.empty()) {
    return "ERR AUTH was sent, but this server has no secret [TD6020]; hint: send no AUTH";
  }
  if (!rpc::ProofsEqual(password, secret)) {
    shared_->refused.Add(1);
    Note(command_, Unauthenticated("wrong secret"));
    return "WRONGPASS the password is not the secret of the job [TD6011]; hint: use the content "
           "of the file of TANDEM_SECRET_FILE";
  }
  admitted_ = true;
  Note(command_, OkStatus());
  return "";
}

RespSession::Step RespSession::Auth(const RespArguments& arguments, RespOutput& out) {
  // With two arguments, the first is a user name, which has no meaning here.
  const std::string error = Admit(arguments[arguments.size() - 1]);
  if (error.empty()) {
    out.Simple("OK");
  } else {
    out.Error(error);
  }
  return Step::kReplied;
}

RespSession::Step RespSession::Hello(const RespArguments& arguments, RespOutput& out) {
  int version = out.version();
  size_t next = 1;
  if (arguments.size() > 1) {
    if (arguments[1] != "2" && arguments[1] != "3") {
      out.Error("NOPROTO unsupported protocol version, expected 2 or 3");
      return Step::kReplied;
    }
    version = arguments[1][0] - '0';
    next = 2;
  }
  while (next < arguments.size()) {
    const size_t left = arguments.size() - next;
    if (EqualsUpper(arguments[next], "AUTH") && left >= 3) {
      if (const std::string error = Admit(arguments[next + 2]); !error.empty()) {
        out.Error(error);
        return Step::kReplied;
      }
      next += 3;
    } else if (EqualsUpper(arguments[next], "SETNAME") && left >= 2) {
      next += 2;
    } else {
      return Refuse(InvalidArgument("HELLO: expected HELLO [2 or 3 [AUTH user secret] [SETNAME "
                                    "name]] [TD4041]"),
                    out);
    }
  }
  if (!admitted_) {
    out.Error(
        "NOAUTH HELLO must be called with AUTH, because this server has a secret [TD6011]; hint: "
        "send HELLO VERSION AUTH default SECRET");
    return Step::kReplied;
  }
  out.set_version(version);
  out.Map(5);
  out.Bulk("server");
  out.Bulk("tandem");
  out.Bulk("proto");
  out.Integer(version);
  out.Bulk("mode");
  out.Bulk("standalone");
  out.Bulk("role");
  out.Bulk(shared_->target.replica ? "replica" : "master");
  out.Bulk("modules");
  out.Array(0);
  return Step::kReplied;
}

RespSession::Step RespSession::Ping(const RespArguments& arguments, RespOutput& out) {
  if (arguments.size() == 1) {
    out.Simple("PONG");
  } else {
    out.Bulk(arguments[1]);
  }
  return Step::kReplied;
}

RespSession::Step RespSession::Echo(const RespArguments& arguments, RespOutput& out) {
  out.Bulk(arguments[1]);
  return Step::kReplied;
}

RespSession::Step RespSession::Select(const RespArguments& arguments, RespOutput& out) {
  if (arguments[1] != "0") {
    return Refuse(InvalidArgument("SELECT: this server has only database 0 [TD4041]"), out);
  }
  out.Simple("OK");
  return Step::kReplied;
}

RespSession::Step RespSession::ListCommands(const RespArguments& arguments, RespOutput& out) {
  // The elements of an entry: name, number of arguments (negative: the minimum), flags, first key,
  // last key, step between keys.
  struct Entry {
    std::string_view name;
    int arguments, first, last;
  };
  static constexpr Entry kEntries[] = {
      {"get", 2, 1, 1},      {"mget", -2, 1, -1},   {"hget", 3, 1, 1},    {"hmget", -3, 1, 1},
      {"hlen", 2, 1, 1},     {"exists", -2, 1, -1}, {"hexists", 3, 1, 1}, {"ping", -1, 0, 0},
      {"echo", 2, 0, 0},     {"select", 2, 0, 0},   {"info", -1, 0, 0},   {"auth", -2, 0, 0},
      {"command", -1, 0, 0}, {"hello", -1, 0, 0},   {"quit", 1, 0, 0}};
  if (arguments.size() > 1 && EqualsUpper(arguments[1], "COUNT")) {
    out.Integer(std::ssize(kEntries));
    return Step::kReplied;
  }
  if (arguments.size() > 1) {  // COMMAND DOCS and others: nothing is known
    out.Map(0);
    return Step::kReplied;
  }
  out.Array(std::size(kEntries));
  for (const Entry& entry : kEntries) {
    out.Array(6);
    out.Bulk(entry.name);
    out.Integer(entry.arguments);
    out.Array(1);
    out.Simple("readonly");
    out.Integer(entry.first);
    out.Integer(entry.last);
    out.Integer(entry.first);
  }
  return Step::kReplied;
}

RespSession::Step RespSession::Info(const RespArguments& arguments, RespOutput& out) {
  (void)arguments;  // every section is small
  out.Bulk(RespInfo(*shared_));
  Note(command_, OkStatus());
  return Step::kReplied;
}

RespSession::Step RespSession::Quit(const RespArguments& arguments, RespOutput& out) {
  (void)arguments;
  out.Simple("OK");
  return Step::kClose;
}

// ---- Reads --------------------------------------------------------------------------------------

Status RespSession::Collect(size_t bytes_max, const std::function<Status(bool fresh)>& add) {
  TD_REQUIRE(parts_.empty());
  keys_.Begin(catalog_, bytes_max);
  Status status = add(false);
  // A slice of a variable may have moved since the names were read.
  if (status.ok() && keys_.variables() == 0) return status;
  if (!status.ok() && !absl::IsNotFound(status) && !absl::IsFailedPrecondition(status)) {
    return status;
  }
  catalog_ = RespCatalog::Of(shared_->target.shard->Info());
  keys_.Begin(catalog_, bytes_max);
  return add(true);
}

RespSession::Step RespSession::Gather(bool array, const std::function<Status()>& add,
                                      RespOutput& out) {
  size_t before = 0;
  if (parts_.empty()) {
    const Status status =
        Collect(shared_->target.limits.reply_bytes_max, [&add](bool) { return add(); });
    if (!status.ok()) return Refuse(status, out);
  } else {
    // A mistake may need other names, which the keys of the gathered reads do not refer to.
    before = keys_.size();
    const size_t bytes = keys_.reply_bytes(), variables = keys_.variables();
    if (!add().ok() || keys_.variables() != variables) {
      keys_.RollBack(before, bytes);
      return Step::kFlush;
    }
  }
  parts_.push_back({command_, array, keys_.size() - before});
  return Step::kGathered;
}

RespSession::Step RespSession::Get(const RespArguments& arguments, RespOutput& out) {
  const auto add = [&] {
    for (size_t i = 1; i < arguments.size(); ++i) TD_RETURN_IF_ERROR(keys_.Add(arguments[i]));
    return OkStatus();
  };
  return Gather(command_[0] == 'M', add, out);
}

RespSession::Step RespSession::HashGet(const RespArguments& arguments, RespOutput& out) {
  const auto add = [&] {
    for (size_t i = 2; i < arguments.size(); ++i) {
      TD_RETURN_IF_ERROR(keys_.AddRow(arguments[1], arguments[i]));
    }
    return OkStatus();
  };
  return Gather(command_ == "HMGET", add, out);
}

RespSession::Step RespSession::Flush(RespOutput& out) {
  TD_REQUIRE(waiting_ == nullptr);
  reading_ = parts_.size();
  return ReadParts(out);
}

RespSession::Step RespSession::ReadParts(RespOutput& out) {
  while (part_ < parts_.size()) {
    if (!Pull(out)) return Step::kWaiting;
  }
  parts_.clear();
  part_ = key_ = 0;
  return Step::kReplied;
}

bool RespSession::Pull(RespOutput& out) {
  const RespTarget& target = shared_->target;
  TD_REQUIRE(reading_ > 0 && part_ + reading_ <= parts_.size() && waiting_ == nullptr);
  auto wait = std::make_shared<Wait>();
  wait->wake = wake_;
  const size_t bytes = 2 * keys_.reply_bytes();
  if (shared_->memory.Reserve(bytes)) {
    wait->shared = shared_;
    wait->reserved = bytes;
  } else {
    wait->result = ResourceExhausted(
        "the commands and unsent replies of all clients would exceed %d bytes (memory_bytes_max) "
        "[TD4041]; hint: try again",
        target.limits.memory_bytes_max);
    wait->state = Wait::kDone;
    Finish(*wait, out);
    return true;
  }
  size_t keys = 0;
  for (size_t i = part_; i < part_ + reading_; ++i) keys += parts_[i].keys;
  const Time deadline =
      target.deadlines->After(static_cast<uint64_t>(Millis(target.limits.read_timeout)));
  target.shard->Pull(
      keys_.Query(target.shard->Job(), key_, keys), deadline,
      [wait](StatusOr<PullResult> result) {
        wait->result = std::move(result);
        if (wait->state.exchange(Wait::kDone) == Wait::kSleeping) wait->wake();
      },
      wait.get());
  if (wait->state.exchange(Wait::kSleeping) == Wait::kDone) {
    wait->state = Wait::kDone;
    Finish(*wait, out);
    return true;
  }
  waiting_ = std::move(wait);
  target.deadlines->Poke(deadline);
  return false;
}

RespSession::Step RespSession::Resume(RespOutput& out) {
  TD_REQUIRE(waiting_ != nullptr);
  const std::shared_ptr<Wait> ended = std::move(waiting_);
  if (ended->count) {
    FinishCount(*ended, out);
    return Step::kReplied;
  }
  Finish(*ended, out);
  return ReadParts(out);
}

bool RespSession::ready() const { return waiting_ != nullptr && waiting_->state == Wait::kDone; }

RespSession::Step RespSession::GiveUp(RespOutput& out) {
  TD_REQUIRE(waiting_ != nullptr);
  const std::shared_ptr<Wait> late = std::move(waiting_);
  shared_->target.shard->Leave(late.get());
  auto ended = std::make_shared<Wait>();
  ended->count = late->count;
  ended->result = DeadlineExceeded(
      "the log of this server has not had the newest changes for %.0f s (reply_timeout) [TD4041]; "
      "hint: look for a slow disk or missing standbys with tandem status, then try again",
      Seconds(shared_->target.limits.reply_timeout));
  ended->state = Wait::kDone;
  waiting_ = std::move(ended);
  return Resume(out);
}

void RespSession::Finish(Wait& wait, RespOutput& out) {
  TD_REQUIRE(wait.state == Wait::kDone);
  const bool ok = wait.result.ok();
  if (reading_ > 1 && MayBeOfOneCommand(wait.result.status())) {
    reading_ = 1;
    return;
  }
  std::optional<RespValues> values;
  size_t keys = 0;
  for (size_t i = part_; i < part_ + reading_; ++i) keys += parts_[i].keys;
  if (ok) values.emplace(keys_, key_, keys, *wait.result);
  for (size_t i = 0; i < reading_; ++i) {
    const Part& part = parts_[part_++];
    command_ = part.command;
    if (ok) {
      if (part.array) out.Array(part.keys);
      values->Append(key_, part.keys, out);
      Note(command_, OkStatus());
    } else {
      (void)Refuse(WithOwner(wait.result.status(), shared_->target), out);
    }
    key_ += part.keys;
  }
}

RespSession::Step RespSession::HashLength(const RespArguments& arguments, RespOutput& out) {
  const RespTarget& target = shared_->target;
  const auto rows =
      target.shard->reads().CountTable(target.shard->Job(), std::string(arguments[1]));
  if (rows.ok()) return ReplyWhenLogged(*rows, out);
  if (!absl::IsNotFound(rows.status())) return Refuse(rows.status(), out);
  return Refuse(NotFound("this server has no table \"%s\" [TD4034]; hint: INFO lists the tables",
                         std::string(arguments[1].substr(0, kNameShownMax))),
                out);
}

RespSession::Step RespSession::Exists(const RespArguments& arguments, RespOutput& out) {
  const Status collected = Collect(SIZE_MAX, [&](bool fresh) {
    for (size_t i = 1; i < arguments.size(); ++i) {
      Status added = keys_.Add(arguments[i]);
      // A name that the server does not have does not exist.
      if (!added.ok() && !(fresh && absl::IsNotFound(added))) return added;
    }
    return OkStatus();
  });
  return collected.ok() ? Count(out) : Refuse(collected, out);
}

RespSession::Step RespSession::HashExists(const RespArguments& arguments, RespOutput& out) {
  const Status collected =
      Collect(SIZE_MAX, [&](bool) { return keys_.AddRow(arguments[1], arguments[2]); });
  return collected.ok() ? Count(out) : Refuse(collected, out);
}

RespSession::Step RespSession::Count(RespOutput& out) {
  const RespTarget& target = shared_->target;
  const size_t variables = keys_.variables();
  const std::string job = target.shard->Job();
  size_t count = variables;
  for (size_t first = 0; first < keys_.size(); first += kCountedMax) {
    const size_t keys = std::min(kCountedMax, keys_.size() - first);
    const auto rows = target.shard->reads().CountRows(job, keys_.Query(job, first, keys).rows);
    if (!rows.ok()) return Refuse(WithOwner(rows.status(), target), out);
    count += *rows;
  }
  return ReplyWhenLogged(count, out);
}

RespSession::Step RespSession::ReplyWhenLogged(size_t count, RespOutput& out) {
  TD_REQUIRE(waiting_ == nullptr && parts_.empty());
  auto wait = std::make_shared<Wait>();
  wait->count = count;
  wait->wake = wake_;
  shared_->target.shard->WhenLogged([wait](const Status& written) {
    wait->result = written.ok() ? StatusOr<PullResult>(PullResult()) : written;
    if (wait->state.exchange(Wait::kDone) == Wait::kSleeping) wait->wake();
  });
  if (wait->state.exchange(Wait::kSleeping) == Wait::kDone) {
    FinishCount(*wait, out);
    return Step::kReplied;
  }
  waiting_ = std::move(wait);
  return Step::kWaiting;
}

void RespSession::FinishCount(const Wait& wait, RespOutput& out) {
  TD_REQUIRE(wait.count.has_value());
  if (!wait.result.ok()) return void(Refuse(wait.result.status(), out));
  out.Integer(static_cast<int64_t>(*wait.count));
  Note(command_, OkStatus());
}

}  // namespace tandem::pserver
