// cuDNN's graphs: several operations on images that run as one plan, and what lies between them in
// no memory. A graph is described on any machine; its plan is made for a device by cuDNN's
// heuristics and, for most, compiled (about half a second).
// Source: the graph interface of cuDNN 9 (its backend descriptors); plans without a device's handle
// need 9.8, which the build asks for; an older library at run time refuses: UNIMPLEMENTED.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops/cuda/dnn_status.h"

namespace tandem {

// One of cuDNN's backend descriptors, finalized.
using DnnDescriptor = std::shared_ptr<void>;

// What plans are made for: the device of a handle, or one that cuDNN's JSON describes, which need
// not be here.
StatusOr<DnnDescriptor> DnnDeviceOf(cudnnHandle_t handle);
StatusOr<DnnDescriptor> DnnDeviceFrom(std::string_view json);

class DnnPlan {
 public:
  // The memory of a tensor; of a number, the host's.
  struct Given {
    int64_t tensor;
    const void* at;
  };
  // `parts`: the plan, and what it speaks of.
  DnnPlan(std::vector<DnnDescriptor> parts, size_t workspace)
      : parts_(std::move(parts)), workspace_(workspace) {}
  // Of text() of a plan that the same cuDNN made for the same kind of device: nothing is compiled.
  static StatusOr<DnnPlan> Restore(const DnnDescriptor& device, std::string_view text);
  // With what was compiled.
  StatusOr<std::string> text() const;
  size_t workspace() const { return workspace_; }  // bytes
  // Puts it on the handle's stream. `given`: every tensor in memory, and every number.
  Status Run(cudnnHandle_t handle, std::span<const Given> given, void* workspace) const;

 private:
  std::vector<DnnDescriptor> parts_;
  size_t workspace_;
};

// Channels are last in memory, everywhere. The first error of a call stays for the plans. Sums
// are f32.
class DnnGraph {
 public:
  using Id = int64_t;                   // of a tensor
  using Dims = std::array<int64_t, 4>;  // images, channels, rows, columns

  Id Tensor(cudnnDataType_t type, const Dims& dims);   // in memory, aligned to 16 bytes
  Id Between(cudnnDataType_t type, const Dims& dims);  // from one operation to the next
  Id Number();  // one f32 of the host's, read when the plan is run
  Id Channels(int64_t channels) { return Tensor(CUDNN_DATA_FLOAT, {1, channels, 1, 1}); }

  struct Window {
    std::array<int64_t, 2> stride, pad, dilation;
  };
  // y = x * w, w [filters, channels of a group, rows, columns]; and its gradients.
  void Convolution(Id x, Id w, Id y, const Window& window);
  void ConvolutionInputGrad(Id w, Id gy, Id gx, const Window& window);
  void ConvolutionFilterGrad(Id x, Id gy, Id gw, const Window& window);
  // y = mode(a, b); b may have one element a channel, or one.
  void Pointwise(cudnnPointwiseMode_t mode, Id a, Id b, Id y);
  // y = max(x, 0), NaN where x is.
  void Relu(Id x, Id y);

  // saved_inv = 1 / sqrt(variance + epsilon), the variance divided by n.
  struct BatchNormTensors {
    Id x, scale, bias, epsilon, y, saved_mean, saved_inv;
  };
  // In training, without running statistics.
  void BatchNorm(const BatchNormTensors& t);
  struct BatchNormGradTensors {
    Id x, gy, scale, saved_mean, saved_inv, gx, gscale, gbias;
  };
  void BatchNormGrad(const BatchNormGradTensors& t);

  // What it is, in words: equal graphs have equal keys.
  const std::string& key() const { return key_; }
  // cuDNN's proposals for a device by number: those of its heuristics, best first, and from
  // kFallback on those for when none of them serves.
  static constexpr size_t kFallback = 8, kProposals = 16;
  // NOT_FOUND: there are fewer. Other errors: it gives other bits each time, or cannot be made.
  StatusOr<DnnPlan> MakeProposal(const DnnDescriptor& device, size_t number) const;
  // The first that can be made within so many bytes of workspace. UNIMPLEMENTED: there is none.
  StatusOr<DnnPlan> MakePlan(const DnnDescriptor& device, size_t workspace_max) const;

  class Builder;  // of a descriptor

 private:
  using Slots = std::vector<std::pair<cudnnBackendAttributeName_t, Id>>;
  Id AddTensor(cudnnDataType_t type, const Dims& dims, bool between, bool number);
  void Operate(const char* what, Builder operation, const Slots& slots);
  Builder PointwiseOperation(cudnnPointwiseMode_t mode);
  struct ConvolutionKind;
  Builder ConvolutionOperation(const ConvolutionKind& kind, const Window& window);
  void* Keep(StatusOr<DnnDescriptor> made, std::vector<DnnDescriptor>& where);

  Status status_;
  std::vector<DnnDescriptor> tensors_, operations_;
  std::vector<DnnDescriptor> parts_;  // what operations speak of, besides tensors
  std::string key_;
};

}  // namespace tandem
