#include "trainer/session/counting_comm.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::trainer {

StatusOr<int> CountingComm::Register(const exec::CommNode& node) {
  TD_ASSIGN_OR_RETURN(const int index, inner_.Register(node));
  nodes_.resize(std::max(nodes_.size(), static_cast<size_t>(index) + 1));
  Node& own = nodes_[static_cast<size_t>(index)];
  own.type = node.op->type;
  for (const exec::CommTensor& tensor : node.out)
    own.bytes += static_cast<double>(tensor.desc.bytes());
  return index;
}

void CountingComm::Start(int index, int64_t step, exec::CommDone* done) {
  TD_REQUIRE(index >= 0 && static_cast<size_t>(index) < nodes_.size());
  ++nodes_[static_cast<size_t>(index)].started;
  inner_.Start(index, step, done);
}

std::map<std::string, CommTypeCounts> CountingComm::ByType() const {
  std::map<std::string, CommTypeCounts> counts;
  for (const Node& node : nodes_) {
    CommTypeCounts& of_type = counts[node.type];
    const auto started = static_cast<double>(node.started);
    of_type.started += started;
    of_type.out_bytes += started * node.bytes;
  }
  return counts;
}

}  // namespace tandem::trainer
