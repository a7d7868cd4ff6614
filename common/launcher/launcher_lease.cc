#include "common/launcher/launcher_lease.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/os/own_files.h"

namespace tandem {
namespace {

constexpr uint64_t kLeaseBytesMax = 64;

}  // namespace

class LeaseWatch::Thread {
 public:
  Thread(std::string path, Duration limit, std::function<void(Duration)> expired)
      : path_(std::move(path)), limit_(limit), expired_(std::move(expired)) {
    TD_REQUIRE(limit_ > Duration::zero() && expired_ != nullptr);
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
        const Time next = SteadyNow() + limit_ / 8;
        while (!ended_ && SteadyNow() < next) wake_.WaitUntil(mu_, next);
        if (ended_) return;
      }
      const StatusOr<Time> renewed = LeaseRenewedAt(path_);
      const Duration age = renewed.ok() ? SteadyNow() - *renewed : Duration::zero();
      if (age >= limit_) return expired_(age);
    }
  }

  const std::string path_;
  const Duration limit_;
  const std::function<void(Duration)> expired_;
  Mutex mu_;
  CondVar wake_;
  bool ended_ TD_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

Status RenewLease(const std::string& path, Time now) {
  return WriteOwnFile(path, absl::StrCat(now.time_since_epoch().count(), "\n"));
}

StatusOr<Time> LeaseRenewedAt(const std::string& path) {
  TD_ASSIGN_OR_RETURN(const std::string text, ReadOwnFile(path, kLeaseBytesMax, OwnRule::kUser));
  int64_t count = 0;
  if (!absl::SimpleAtoi(text, &count)) return DataLoss("%s is no lease of tandemrun", path);
  return Time(Duration(count));
}

LeaseWatch::LeaseWatch(std::string path, Duration limit, std::function<void(Duration)> expired)
    : thread_(std::make_unique<Thread>(std::move(path), limit, std::move(expired))) {}
LeaseWatch::~LeaseWatch() = default;

}  // namespace tandem
