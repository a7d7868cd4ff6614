#include "deploy/launch/hosts/host_messages.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "common/base/require.h"
#include "proto/launcher.pb.h"

namespace tandem::deploy {
namespace {

// The last values of JobReport::Kind and JobOrder::Kind.
constexpr auto kLastReport = JobReport::Kind::kScale;
constexpr auto kLastNews = MemberNews::Kind::kState;
constexpr int64_t kWaitMsMax = int64_t{1000} * 3600 * 24 * 365;  // a year
constexpr auto kLastOrder = JobOrder::Kind::kEnd;

void Fill(const Failure& from, pb::LaunchFailure& to) {
  to.set_role(from.role);
  to.set_rank(from.rank);
  to.set_host(from.host);
  to.set_pid(from.pid);
  to.set_exit_code(from.exit.code);
  to.set_exit_signal(from.exit.signal);
  to.set_early(from.early);
  to.set_stuck(from.stuck);
  to.set_silent_s(from.silent_s);
  to.set_after_s(from.after_s);
  to.set_wall_time(from.time);
  to.set_log_file(from.log_file);
  for (const std::string& line : from.last_lines) to.add_last_lines(line);
  to.set_text(from.text);
}

Failure FailureFrom(const pb::LaunchFailure& from) {
  Failure to;
  to.role = from.role();
  to.rank = from.rank();
  to.host = from.host();
  to.pid = from.pid();
  to.exit = {.code = from.exit_code(), .signal = from.exit_signal()};
  to.early = from.early();
  to.stuck = from.stuck();
  to.silent_s = from.silent_s();
  to.after_s = from.after_s();
  to.time = from.wall_time();
  to.log_file = from.log_file();
  to.last_lines.assign(from.last_lines().begin(), from.last_lines().end());
  to.text = from.text();
  return to;
}

void Fill(const ProcessWait& from, pb::LaunchWait& to) {
  const auto ms = [](Duration time) { return static_cast<int64_t>(Millis(time)); };
  to.set_who_kind(from.who.kind);
  to.set_who_number(from.who.number);
  to.set_whom_kind(from.whom.kind);
  to.set_whom_number(from.whom.number);
  to.set_waited_ms(ms(from.waited));
  to.set_limit_ms(ms(from.limit));
  to.set_start_limit_ms(ms(from.start_limit));
}

ProcessWait WaitFrom(const pb::LaunchWait& from) {
  const auto ms = [](int64_t count) {
    return std::chrono::milliseconds(std::clamp<int64_t>(count, 0, kWaitMsMax));
  };
  return {{from.who_kind(), from.who_number()},
          {from.whom_kind(), from.whom_number()},
          ms(from.waited_ms()),
          ms(from.limit_ms()),
          ms(from.start_limit_ms())};
}

void Fill(const JobHost& from, pb::HostEntry& to) {
  to.set_host(from.host);
  to.set_address(from.address);
  to.set_first_port(from.first_port);
}

JobHost HostFrom(const pb::HostEntry& from) {
  return {from.host(), from.address(), from.first_port()};
}

// Fills the proto of each kind of message.
struct Filler {
  pb::HostMessage& to;

  void operator()(const HostPing&) const { to.mutable_ping(); }
  void operator()(const HostGoodbye&) const { to.mutable_goodbye(); }
  void operator()(const HostJoin& from) const {
    pb::HostJoin& join = *to.mutable_join();
    join.set_protocol(from.protocol);
    join.set_version(from.version);
    Fill(from.host, *join.mutable_host());
    join.set_kept(from.kept + 1);
    for (const std::string& setting : from.settings) join.add_settings(setting);
  }
  void operator()(const HostLayout& from) const {
    pb::HostLayout& layout = *to.mutable_layout();
    layout.set_number(from.number);
    layout.set_leader(from.leader);
    layout.set_replaces(from.replaces);
    for (const JobHost& host : from.hosts) Fill(host, *layout.add_hosts());
    for (const RoleCertificate& certificate : from.certificates) {
      pb::RoleCertificate& added = *layout.add_certificates();
      added.set_role(certificate.role);
      added.set_authority(certificate.authority);
      added.set_cert(certificate.cert);
      added.set_key(certificate.key);
    }
  }
  void operator()(const HostRefusal& from) const {
    to.mutable_refusal()->set_code(static_cast<int>(from.code));
    to.mutable_refusal()->set_text(from.text);
  }
  void operator()(const JobReport& from) const {
    pb::LaunchReport& report = *to.mutable_report();
    report.set_kind(static_cast<int>(from.kind));
    for (const ProcessEnd& end : from.ended) {
      pb::LaunchEnd& added = *report.add_ended();
      added.set_name(end.name);
      added.set_rank(end.rank);
      added.set_done(end.done);
      added.set_killed(end.killed);
      added.set_lost(end.lost);
      added.set_can_return(end.can_return);
      added.set_failed(end.failed);
      added.set_server(end.server + 1);
      added.set_server_member(end.server_member);
      Fill(end.failure, *added.mutable_failure());
    }
    report.set_number(from.number);
    report.set_text(from.text);
    report.set_event(from.event);
    report.set_process(from.process);
    if (from.kind == JobReport::Kind::kWait) Fill(from.wait, *report.mutable_wait());
    if (from.kind == JobReport::Kind::kMember) {
      pb::LaunchMember& member = *report.mutable_member();
      member.set_kind(static_cast<int>(from.member.kind));
      member.set_server(from.member.server);
      member.set_member(from.member.member);
      if (from.member.kind == kLastNews) member.set_text(tandem::Encode(from.member.state));
    }
  }
  void operator()(const JobOrder& from) const {
    pb::LaunchOrder& order = *to.mutable_order();
    order.set_kind(static_cast<int>(from.kind));
    order.set_process(from.process);
    order.set_number(from.number);
    order.set_member(from.member);
    order.set_version(from.version);
    order.mutable_members()->Add(from.members.begin(), from.members.end());
    order.set_over(from.over);
    if (from.kind == JobOrder::Kind::kFailed) Fill(from.failure, *order.mutable_failure());
    order.set_event(from.event);
    order.set_text(from.text);
    order.set_shown(from.shown);
    if (from.kind == JobOrder::Kind::kWait) Fill(from.wait, *order.mutable_wait());
    if (from.kind == JobOrder::Kind::kMember) {
      pb::LaunchMember& member = *order.mutable_command();
      member.set_server(from.server);
      member.set_member(from.server_member);
      member.set_text(tandem::Encode(from.command));
    }
  }
};

// Returns whether `kind` is a value of an enumeration whose last value is `last`.
template <typename Enum>
bool IsKind(int kind, Enum last) {
  return kind >= 0 && kind <= static_cast<int>(last);
}

std::optional<MemberNews> NewsFrom(const pb::LaunchMember& from) {
  if (!IsKind(from.kind(), kLastNews)) return std::nullopt;
  MemberNews to{static_cast<MemberNews::Kind>(from.kind()), from.server(), from.member(), {}};
  if (to.kind != MemberNews::Kind::kState) return to;
  StatusOr<MemberReport> state = DecodeMemberReport(from.text());
  if (!state.ok()) return std::nullopt;
  to.state = *std::move(state);
  return to;
}

std::optional<JobReport> ReportFrom(const pb::LaunchReport& from) {
  if (!IsKind(from.kind(), kLastReport)) return std::nullopt;
  JobReport to;
  to.kind = static_cast<JobReport::Kind>(from.kind());
  for (const pb::LaunchEnd& end : from.ended()) {
    to.ended.push_back({.name = end.name(),
                        .rank = end.rank(),
                        .done = end.done(),
                        .killed = end.killed(),
                        .lost = end.lost(),
                        .can_return = end.can_return(),
                        .failed = end.failed(),
                        .server = std::max(end.server(), 0) - 1,
                        .server_member = end.server_member(),
                        .failure = FailureFrom(end.failure())});
  }
  to.number = from.number();
  to.text = from.text();
  to.event = from.event();
  to.process = from.process();
  to.wait = WaitFrom(from.wait());
  if (to.kind == JobReport::Kind::kMember) {
    std::optional<MemberNews> news = NewsFrom(from.member());
    if (!news) return std::nullopt;
    to.member = *news;
  }
  return to;
}

std::optional<JobOrder> OrderFrom(const pb::LaunchOrder& from) {
  if (!IsKind(from.kind(), kLastOrder)) return std::nullopt;
  if (!std::is_sorted(from.members().begin(), from.members().end())) return std::nullopt;
  JobOrder to;
  to.kind = static_cast<JobOrder::Kind>(from.kind());
  to.process = from.process();
  to.number = from.number();
  to.member = from.member();
  to.version = from.version();
  to.members.assign(from.members().begin(), from.members().end());
  to.over = from.over();
  to.failure = FailureFrom(from.failure());
  to.event = from.event();
  to.text = from.text();
  to.shown = from.shown();
  to.wait = WaitFrom(from.wait());
  using Kind = JobOrder::Kind;
  const bool named = to.kind == Kind::kPrimary || to.kind == Kind::kKill;
  if (named && to.process.empty()) return std::nullopt;
  if (to.kind == Kind::kMember) {
    if (from.command().server() < 0 || from.command().member() < 0) return std::nullopt;
    to.server = from.command().server();
    to.server_member = from.command().member();
    StatusOr<MemberCommand> command = DecodeMemberCommand(from.command().text());
    if (!command.ok()) return std::nullopt;
    to.command = *std::move(command);
  }
  return to;
}

HostJoin JoinFrom(const pb::HostJoin& from) {
  HostJoin to;
  to.protocol = from.protocol();
  to.version = from.version();
  to.host = HostFrom(from.host());
  to.settings.assign(from.settings().begin(), from.settings().end());
  to.kept = std::max(from.kept(), 0) - 1;
  return to;
}

HostLayout LayoutFrom(const pb::HostLayout& from) {
  HostLayout to;
  to.number = from.number();
  to.leader = from.leader();
  to.replaces = from.replaces();
  for (const pb::HostEntry& host : from.hosts()) to.hosts.push_back(HostFrom(host));
  for (const pb::RoleCertificate& added : from.certificates()) {
    to.certificates.push_back({added.role(), added.authority(), added.cert(), added.key()});
  }
  return to;
}

}  // namespace

std::string Encode(const HostMessage& message) {
  pb::HostMessage to;
  std::visit(Filler{to}, message);
  return to.SerializeAsString();
}

StatusOr<HostMessage> DecodeHostMessage(const std::string& bytes) {
  pb::HostMessage from;
  const Status wrong =
      DataLoss("another tandemrun sent a message of %d bytes that is not valid", bytes.size());
  if (!from.ParseFromString(bytes)) return wrong;
  switch (from.kind_case()) {
    case pb::HostMessage::kPing:
      return HostMessage(HostPing());
    case pb::HostMessage::kGoodbye:
      return HostMessage(HostGoodbye());
    case pb::HostMessage::kJoin:
      return HostMessage(JoinFrom(from.join()));
    case pb::HostMessage::kLayout:
      return HostMessage(LayoutFrom(from.layout()));
    case pb::HostMessage::kRefusal: {
      const auto code = static_cast<StatusCode>(from.refusal().code());
      return HostMessage(HostRefusal{code == StatusCode::kOk ? StatusCode::kUnknown : code,
                                     from.refusal().text()});
    }
    case pb::HostMessage::kReport: {
      std::optional<JobReport> report = ReportFrom(from.report());
      if (!report) return wrong;
      return HostMessage(*std::move(report));
    }
    case pb::HostMessage::kOrder: {
      std::optional<JobOrder> order = OrderFrom(from.order());
      if (!order) return wrong;
      return HostMessage(*std::move(order));
    }
    case pb::HostMessage::KIND_NOT_SET:
      return wrong;
  }
  return wrong;
}

}  // namespace tandem::deploy
