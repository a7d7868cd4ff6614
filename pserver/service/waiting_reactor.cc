#include "pserver/service/waiting_reactor.h"

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

namespace tandem::pserver {
namespace {

class WaitingReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit WaitingReactor(std::function<void()> gone) : gone_(std::move(gone)) {}
  void Keep(std::unique_ptr<WaitingReactor> self) { self_ = std::move(self); }
  void OnCancel() override { gone_(); }
  void OnDone() override { const auto last = std::move(self_); }

 private:
  const std::function<void()> gone_;
  std::unique_ptr<WaitingReactor> self_;  // reference to this object, which OnDone releases
};

}  // namespace

grpc::ServerUnaryReactor* NewWaitingReactor(std::function<void()> gone) {
  auto made = std::make_unique<WaitingReactor>(std::move(gone));
  WaitingReactor* const reactor = made.get();
  reactor->Keep(std::move(made));
  return reactor;
}

}  // namespace tandem::pserver
