#include "common/http/latest_document.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "common/threads/runner.h"

namespace tandem::http {

LatestDocument::LatestDocument(std::function<StatusDocument()> make)
    : make_(std::move(make)), thread_([this] { Loop(); }) {}

LatestDocument::~LatestDocument() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    cv_.NotifyAll();
  }
  thread_.join();
}

void LatestDocument::Loop() {
  SetThreadName("status");
  while (true) {
    {
      MutexLock lock(mu_);
      while (!stop_ && !wanted_) (void)cv_.WaitUntil(mu_, Time::max());
      if (stop_) return;
      wanted_ = false;
      ++begun_;
      begin_ = SteadyNow();
    }
    StatusDocument document = make_();
    MutexLock lock(mu_);
    latest_ = std::move(document);
    latest_begin_ = begin_;
    TD_REQUIRE(made_ < begun_);
    made_ = begun_;
    cv_.NotifyAll();
  }
}

StatusDocument LatestDocument::Get() {
  MutexLock lock(mu_);
  const uint64_t number = begun_ + 1;  // number of the next call of `make`
  wanted_ = true;
  cv_.NotifyAll();
  const bool busy = begun_ != made_;
  const Time until = (busy ? begin_ : SteadyNow()) + kPatience;
  while (made_ < number && SteadyNow() < until) (void)cv_.WaitUntil(mu_, until);
  return made_ < number ? Aged(SteadyNow()) : latest_;
}

StatusDocument LatestDocument::Aged(Time now) const {
  StatusDocument document = latest_;
  if (made_ == 0) {
    document.title = "no data yet";
    return document;
  }
  const Duration age = now - latest_begin_;
  TD_REQUIRE(age >= Duration::zero());
  document.ready = document.ready && age < kAgeMax;
  document.facts.emplace_back("age of this page", absl::StrFormat("%.1f s", Seconds(age)));
  return document;
}

}  // namespace tandem::http
