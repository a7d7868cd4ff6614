#include "common/launcher/launcher_lease.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/os/own_files.h"

namespace tandem {
namespace {

constexpr uint64_t kLeaseBytesMax = 64;
constexpr Duration kReadEvery = std::chrono::milliseconds(250);

}  // namespace

class LeaseWatch::Thread {
 public:
  Thread(std::string path, std::function<void(Duration)> expired)
      : path_(std::move(path)), expired_(std::move(expired)) {
    TD_REQUIRE(expired_ != nullptr);
    thread_ = std::thread([this] { Run(); });
  }
  ~Thread() {
    {
      MutexLock lock(mu_);
      ended_ = true;
    }
    wake_.NotifyAll();
    thread_.join();
  }

 private:
  void Run() {
    while (true) {
      {
        MutexLock lock(mu_);
        const Time next = SteadyNow() + kReadEvery;
        while (!ended_ && SteadyNow() < next) wake_.WaitUntil(mu_, next);
        if (ended_) return;
      }
      const StatusOr<LauncherLease> lease = ReadLease(path_);
      const Duration age = lease.ok() ? SteadyNow() - lease->renewed : Duration::zero();
      if (lease.ok() && age >= lease->limit) return expired_(age);
    }
  }

  const std::string path_;
  const std::function<void(Duration)> expired_;
  Mutex mu_;
  CondVar wake_;
  bool ended_ TD_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

std::unique_ptr<LeaseWatch> EndWithLease(const std::string& path, const char* program) {
  if (path.empty()) return nullptr;
  return std::make_unique<LeaseWatch>(path, [program](Duration silent) {
    std::fprintf(stderr,
                 "%s: error: the tandemrun of this host has not run for %.1f s, so the other hosts "
                 "continue without this host [TD3016]\n",
                 program, Seconds(silent));
    _exit(kExitLostPeer);
  });
}

Status RenewLease(const std::string& path, const LauncherLease& lease) {
  TD_REQUIRE(lease.limit > Duration::zero());
  return WriteOwnFile(
      path, absl::StrCat(lease.renewed.time_since_epoch().count(), " ", lease.limit.count(), "\n"));
}

StatusOr<LauncherLease> ReadLease(const std::string& path) {
  TD_ASSIGN_OR_RETURN(const std::string text, ReadOwnFile(path, kLeaseBytesMax, OwnRule::kUser));
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  int64_t renewed = 0, limit = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &renewed) ||
      !absl::SimpleAtoi(words[1], &limit) || limit <= 0) {
    return DataLoss("%s is no lease of tandemrun", path);
  }
  return LauncherLease{Time(Duration(renewed)), Duration(limit)};
}

LeaseWatch::LeaseWatch(std::string path, std::function<void(Duration)> expired)
    : thread_(std::make_unique<Thread>(std::move(path), std::move(expired))) {}
LeaseWatch::~LeaseWatch() = default;

}  // namespace tandem
