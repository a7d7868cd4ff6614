// The end of a call that may wait for others: says when its caller is gone. Includes gRPC: for .cc
// files only.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

namespace tandem {

// Lives until gRPC needs it no more.
class WaitingReactor final : public grpc::ServerUnaryReactor {
 public:
  // `gone` is called when the call was cancelled or its connection broke: at most once, on a gRPC
  // thread, also after the call was answered. It must not block.
  static grpc::ServerUnaryReactor* Make(std::function<void()> gone) {
    auto made = std::unique_ptr<WaitingReactor>(new WaitingReactor(std::move(gone)));
    WaitingReactor* const reactor = made.get();
    reactor->self_ = std::move(made);
    return reactor;
  }
  void OnCancel() override { gone_(); }
  void OnDone() override { const auto last = std::move(self_); }

 private:
  explicit WaitingReactor(std::function<void()> gone) : gone_(std::move(gone)) {}

  const std::function<void()> gone_;
  std::unique_ptr<WaitingReactor> self_;
};

}  // namespace tandem
