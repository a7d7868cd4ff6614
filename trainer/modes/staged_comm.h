// Communication of tensors wherever they are, by a handler that knows host memory alone.
#pragma once

#include <memory>
#include <vector>

#include "kernels/exec/comm.h"

namespace tandem::trainer {

// Nodes in host memory are the handler's own affair. Of others, what goes out is copied to host
// memory when it is started, what came in to the device when it has ended: from the handler's
// thread, on the compute stream, behind whatever was put there before.
class StagedComm final : public CommHandler {
 public:
  explicit StagedComm(CommHandler& inner) : inner_(inner) {}  // must outlive this

  // UNIMPLEMENTED for pull_rows on a device, which writes a few rows of a whole table.
  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override;
  Duration timeout() const override { return inner_.timeout(); }

 private:
  struct Copy {
    void* there;
    Buffer here;
    size_t bytes;
  };
  // Ends with the inner communication.
  struct Node final : CommDone {
    void Complete(Status status) override;

    Device* device = nullptr;  // null: nothing to copy
    int inner = 0;
    std::vector<Copy> in, out;
    bool begun = false;  // `out` holds what the device has
    CommDone* done = nullptr;
  };
  StatusOr<std::vector<Copy>> Stage(std::vector<CommTensor>& tensors,
                                    const std::vector<Copy>& shared);

  CommHandler& inner_;
  CpuDevice host_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace tandem::trainer
