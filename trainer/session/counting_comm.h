// Counts the communications of a plan.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/exec/comm.h"
#include "trainer/session/run_counts.h"

namespace tandem::trainer {

// Counts the calls to another handler and forwards them.
class CountingComm final : public CommHandler {
 public:
  explicit CountingComm(CommHandler& inner) : inner_(inner) {}  // must outlive this
  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override;
  Duration timeout() const override { return inner_.timeout(); }

  // The communications by type of operator. Must not be called while the plan runs.
  std::map<std::string, CommTypeCounts> ByType() const;

 private:
  struct Node {
    std::string type;
    int64_t started = 0;
    double bytes = 0;  // bytes that it writes
  };
  CommHandler& inner_;
  std::vector<Node> nodes_;  // by the inner handler's index
};

}  // namespace tandem::trainer
