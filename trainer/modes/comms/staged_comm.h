// Allows a communication handler that can access only host memory to communicate tensors of any
// device.
#pragma once

#include <memory>
#include <vector>

#include "kernels/exec/comm.h"

namespace tandem::trainer {

// Passes nodes in host memory to the handler unchanged. For a node on a device, copies the values
// to send to host memory when the node starts, and copies the received values to the device when
// the communication ends. The second copy runs on the handler's thread and on the compute stream,
// after earlier work of the stream.
class StagedComm final : public exec::CommHandler {
 public:
  // `inner` must outlive this object.
  explicit StagedComm(exec::CommHandler& inner) : inner_(inner) {}

  // UNIMPLEMENTED: the node is a pull_rows on a device, which writes only some rows of a table.
  StatusOr<int> Register(const exec::CommNode& node) override;
  void Start(int index, int64_t step, exec::CommDone* done) override;
  Duration timeout() const override { return inner_.timeout(); }

 private:
  struct Copy {
    void* there;
    Buffer here;
    size_t bytes;
  };
  // Copies the received values to the device when the inner communication completes. Then completes
  // `done`.
  struct Node final : exec::CommDone {
    void Complete(Status status) override;

    Device* device = nullptr;  // device of the tensors; null: tensors are in host memory
    int inner = 0;
    std::vector<Copy> in, out;
    bool begun = false;  // true: `out` has received the device's values
    exec::CommDone* done = nullptr;
  };
  StatusOr<std::vector<Copy>> Stage(std::vector<exec::CommTensor>& tensors,
                                    const std::vector<Copy>& shared);

  exec::CommHandler& inner_;
  CpuDevice host_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace tandem::trainer
