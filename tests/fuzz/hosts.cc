// Fuzz target: messages between the tandemruns of a job on several hosts, and what the director of
// the job makes of the reports.
#include <chrono>
#include <string>

#include "common/base/check.h"
#include "deploy/launch/hosts/host_messages.h"
#include "deploy/launch/hosts/job_director.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem {
namespace {

using deploy::JobDirector;
using deploy::JobOrder;
using deploy::JobReport;

std::string EndedReport() {
  JobReport report;
  report.ended.push_back({.name = "trainer 1", .rank = 1, .killed = true, .lost = true});
  report.ended.back().failure.last_lines = {"a line", "\xff"};
  return deploy::Encode(report);
}

// Takes the report as one of each host. The director must not give an order to a host that does not
// exist.
void Direct(const JobReport& report) {
  for (const int least : {0, 1}) {
    JobDirector::Settings settings;
    settings.host_of = {0, 1};
    settings.pserver_hosts = {0};
    settings.ranks_least = least;
    settings.max_restarts = 1;
    settings.ranks_return = true;
    JobDirector director(settings);
    for (const int host : {0, 1}) director.Take(host, report, Time() + std::chrono::seconds(1));
    director.Step(Time() + std::chrono::hours(1));
    for (const deploy::AddressedOrder& order : director.TakeOrders()) {
      CHECK(order.to >= deploy::AddressedOrder::kAll && order.to <= 1);
    }
  }
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  JobReport wait{.kind = JobReport::Kind::kWait, .number = 1};
  wait.wait.whom = {"caller", 1};
  const deploy::HostJoin join{deploy::kHostProtocol, "1", {"node", "10.0.0.1", 10000}, {"--x=1"}};
  const deploy::HostLayout layout{1, 0, true, {{"node", "10.0.0.1", 10000}}, {{"trainer"}}};
  JobOrder world{.kind = JobOrder::Kind::kWorld, .version = 3, .members = {0, 1}};
  return {{EndedReport(), deploy::Encode(wait), deploy::Encode(join), deploy::Encode(layout),
           deploy::Encode(world), deploy::Encode(deploy::HostPing()),
           deploy::Encode(deploy::HostRefusal{StatusCode::kAborted, "no"})},
          {"trainer", "pserver", "caller", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
          [](std::string_view input) {
            const auto message = deploy::DecodeHostMessage(std::string(input));
            if (!message.ok()) return false;
            if (const auto* report = std::get_if<JobReport>(&*message)) Direct(*report);
            CHECK(deploy::DecodeHostMessage(deploy::Encode(*message)).ok());
            return true;
          }};
}

}  // namespace tandem
