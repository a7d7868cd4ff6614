#include "common/threads/fork_join.h"

#include <latch>

#include "common/base/check.h"

namespace tandem {

ForkJoin::ForkJoin(const std::string& name, int threads) : threads_(threads) {
  CHECK_GE(threads, 1);
  if (threads == 1) return;
  others_ = std::make_unique<ThreadPool>(name, threads - 1, static_cast<size_t>(threads));
}

void ForkJoin::Run(int parts, const std::function<void(int)>& work) {
  CHECK(parts >= 1 && parts <= threads_);
  const bool moved = parts > 1 && caller_.Moved();
  if (moved) others_->SendAway(caller_);
  std::latch left(parts - 1);
  for (int part = 1; part < parts; ++part) {
    const Status posted = others_->Post([&work, &left, part] {
      work(part);
      left.count_down();
    });
    CHECK(posted.ok()) << posted;  // the queue has space for the parts of one task
  }
  work(0);
  left.wait();
  if (moved) others_->LetGo(caller_);
}

}  // namespace tandem
