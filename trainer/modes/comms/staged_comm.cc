#include "trainer/modes/comms/staged_comm.h"

#include <algorithm>
#include <utility>

namespace tandem::trainer {

// Makes `tensors` point to host memory. A tensor that is also in `shared` uses the host memory of
// `shared`. Other tensors get new memory. Returns the pairs of device memory and host memory.
StatusOr<std::vector<StagedComm::Copy>> StagedComm::Stage(std::vector<exec::CommTensor>& tensors,
                                                          const std::vector<Copy>& shared) {
  std::vector<Copy> copies;
  for (exec::CommTensor& tensor : tensors) {
    if (tensor.data == nullptr) continue;
    Copy copy{tensor.data, nullptr, tensor.desc.bytes()};
    const auto same = std::find_if(shared.begin(), shared.end(), [&](const Copy& other) {
      return other.there == copy.there && other.bytes == copy.bytes;
    });
    if (same != shared.end()) {
      copy.here = same->here;
    } else {
      TD_ASSIGN_OR_RETURN(copy.here, host_.Allocate(copy.bytes));
    }
    tensor.data = copy.here.get();
    copies.push_back(std::move(copy));
  }
  return copies;
}

StatusOr<int> StagedComm::Register(const exec::CommNode& node) {
  const bool staged_here = node.place.kind != PlaceKind::kCpu;
  if (staged_here && node.op->type == "pull_rows") {
    return Unimplemented(
        "table \"%s\" must be distributed if it is on device %s [TD1109]; hint: set the model "
        "argument distributed=1",
        node.in[0].var, ToString(node.place));
  }
  auto staged = std::make_unique<Node>();
  exec::CommNode inner = node;
  if (staged_here) {
    staged->device = std::exchange(inner.device, nullptr);
    inner.place = Place{};
    TD_ASSIGN_OR_RETURN(staged->in, Stage(inner.in, {}));
    TD_ASSIGN_OR_RETURN(staged->out, Stage(inner.out, staged->in));
  }
  TD_ASSIGN_OR_RETURN(staged->inner, inner_.Register(inner));
  nodes_.push_back(std::move(staged));
  return static_cast<int>(nodes_.size()) - 1;
}

void StagedComm::Start(int index, int64_t step, exec::CommDone* done) {
  Node& node = *nodes_[static_cast<size_t>(index)];
  if (node.device == nullptr) return inner_.Start(node.inner, step, done);
  node.done = done;
  // A handler may leave some output values unchanged. Therefore the host copies of the outputs get
  // the device's values before the first start.
  for (auto* copies : {&node.out, &node.in}) {
    if (copies == &node.out && std::exchange(node.begun, true)) continue;
    for (const Copy& copy : *copies) {
      const Status status = node.device->CopyToHost(copy.here.get(), copy.there, copy.bytes);
      if (!status.ok()) return done->Complete(status);
    }
  }
  inner_.Start(node.inner, step, &node);
}

void StagedComm::Node::Complete(Status status) {
  for (const Copy& copy : out) {
    if (status.ok()) status = device->CopyFromHost(copy.there, copy.here.get(), copy.bytes);
  }
  done->Complete(std::move(status));
}

}  // namespace tandem::trainer
