// Counts the communications that a plan starts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/exec/comm.h"
#include "trainer/session/run_counts.h"

namespace tandem::trainer {

// Forwards communications to another handler and counts them.
class CountingComm final : public exec::CommHandler {
 public:
  // `inner` must outlive this object.
  explicit CountingComm(exec::CommHandler& inner) : inner_(inner) {}
  StatusOr<int> Register(const exec::CommNode& node) override;
  void Start(int index, int64_t step, exec::CommDone* done) override;
  Duration timeout() const override { return inner_.timeout(); }

  // Returns the number and bytes of the communications for each type of operator. The caller must
  // not call ByType while the plan runs.
  std::map<std::string, CommTypeCounts> ByType() const;

 private:
  struct Node {
    std::string type;
    int64_t started = 0;
    double bytes = 0;  // size in bytes of the outputs of each communication
  };
  exec::CommHandler& inner_;
  std::vector<Node> nodes_;  // communication nodes, by the index that `inner` returned
};

}  // namespace tandem::trainer
