// Joins the hosts of a job, and gives each process its host and port.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "deploy/launch/hosts/host_group.h"
#include "deploy/launch/options/launch_options.h"
#include "deploy/launch/process/process.h"

namespace tandem::deploy {

// Joins the job at options.hosts.rendezvous. Blocks until all hosts have joined (HostGroup::Join),
// and reports the wait on stderr. Then sets the hosts and ports of the processes in `options`, and
// a log directory for this host. `env`: the launcher's environment. `again`:
// HostGroupOptions::again. REQUIRES: options.hosts.several().
StatusOr<std::unique_ptr<HostGroup>> JoinHosts(const Environment& env, const std::string& version,
                                               bool again, LaunchOptions& options);

// Sets the hosts and ports of the processes in `options` as `layout` says, and the log directory of
// this host.
void Apply(const HostLayout& layout, LaunchOptions& options);

// Returns a layout with the names host-0, host-1 and so on, seen from host 0, for --dry_run.
HostLayout ExampleLayout(const LaunchOptions& options);

}  // namespace tandem::deploy
