// Distributes the communication operators of one plan over several handlers.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/exec/comm.h"

namespace tandem::trainer {

class CommRoutes {
 public:
  // Registers the node with `handler`, which must outlive this object. Returns the index of the
  // node in this object, the argument of Start.
  StatusOr<int> Register(exec::CommHandler* handler, const exec::CommNode& node) {
    TD_ASSIGN_OR_RETURN(const int index, handler->Register(node));
    routes_.push_back({handler, index});
    return static_cast<int>(routes_.size()) - 1;
  }
  void Start(int index, int64_t step, exec::CommDone* done) const {
    const Route& route = routes_[static_cast<size_t>(index)];
    route.handler->Start(route.index, step, done);
  }
  // Returns the longest timeout of all handlers.
  Duration timeout() const {
    Duration longest{};
    for (const Route& route : routes_) longest = std::max(longest, route.handler->timeout());
    return longest;
  }

 private:
  struct Route {
    exec::CommHandler* handler;
    int index;  // index of the node in `handler`
  };
  std::vector<Route> routes_;  // the routes of the registered nodes, by index
};

// Passes communication among ranks to one handler, and all other communication to the handler for
// the pservers.
class SplitComm final : public exec::CommHandler {
 public:
  // Sets the handlers. The caller must call Bind before every other method. Both handlers must
  // outlive the last call of this object.
  void Bind(exec::CommHandler* servers, exec::CommHandler* ranks) {
    servers_ = servers;
    ranks_ = ranks;
  }
  StatusOr<int> Register(const exec::CommNode& node) override {
    const std::string& type = node.op->type;
    const bool among_ranks = type.starts_with("c_") || type == "send_v2" || type == "recv_v2";
    return routes_.Register(among_ranks ? ranks_ : servers_, node);
  }
  void Start(int index, int64_t step, exec::CommDone* done) override {
    routes_.Start(index, step, done);
  }
  Duration timeout() const override { return routes_.timeout(); }

 private:
  exec::CommHandler *servers_ = nullptr, *ranks_ = nullptr;
  CommRoutes routes_;
};

}  // namespace tandem::trainer
