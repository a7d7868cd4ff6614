// Communication of a plan that several handlers share, each with nodes of its own.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/exec/comm.h"

namespace tandem::trainer {

class CommRoutes {
 public:
  // Registers the node with `handler`, which must outlive this, and gives its number among all.
  StatusOr<int> Register(CommHandler* handler, const CommNode& node) {
    TD_ASSIGN_OR_RETURN(const int index, handler->Register(node));
    routes_.push_back({handler, index});
    return static_cast<int>(routes_.size()) - 1;
  }
  void Start(int index, int64_t step, CommDone* done) const {
    const Route& route = routes_[static_cast<size_t>(index)];
    route.handler->Start(route.index, step, done);
  }
  // The longest of all handlers.
  Duration timeout() const {
    Duration longest{};
    for (const Route& route : routes_) longest = std::max(longest, route.handler->timeout());
    return longest;
  }

 private:
  struct Route {
    CommHandler* handler;
    int index;  // there
  };
  std::vector<Route> routes_;  // by number
};

// Nodes that ranks run among themselves go to one handler, all others to that of the pservers.
class SplitComm final : public CommHandler {
 public:
  // Before all else. Both must outlive the calls of this.
  void Bind(CommHandler* servers, CommHandler* ranks) {
    servers_ = servers;
    ranks_ = ranks;
  }
  StatusOr<int> Register(const CommNode& node) override {
    const std::string& type = node.op->type;
    const bool among_ranks = type.starts_with("c_") || type == "send_v2" || type == "recv_v2";
    return routes_.Register(among_ranks ? ranks_ : servers_, node);
  }
  void Start(int index, int64_t step, CommDone* done) override { routes_.Start(index, step, done); }
  Duration timeout() const override { return routes_.timeout(); }

 private:
  CommHandler *servers_ = nullptr, *ranks_ = nullptr;
  CommRoutes routes_;
};

}  // namespace tandem::trainer
