// cuDNN graphs: several operations on images that run as one plan, with intermediate values not
// stored in memory. A graph can be described on any machine. cuDNN's heuristics make its plan for a
// device; most plans are compiled, which takes about half a second. Source: the graph interface of
// cuDNN 9 (its backend descriptors). Plans without a device handle need 9.8, which the build
// requires. UNIMPLEMENTED: the library at run time is older.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops/cuda/dnn_status.h"

namespace tandem {

// A finalized backend descriptor of cuDNN.
using DnnDescriptor = std::shared_ptr<void>;

// Returns the device for which plans are made: the device of a handle, or a device described by
// cuDNN's JSON, which need not be present.
StatusOr<DnnDescriptor> DnnDeviceOf(cudnnHandle_t handle);
StatusOr<DnnDescriptor> DnnDeviceFrom(std::string_view json);

class DnnPlan {
 public:
  // The memory of a tensor. For a number it is host memory.
  struct Given {
    int64_t tensor;
    const void* at;
  };
  // `parts`: the plan and the descriptors that it uses.
  DnnPlan(std::vector<DnnDescriptor> parts, size_t workspace)
      : parts_(std::move(parts)), workspace_(workspace) {}
  // Makes a plan from text() of a plan of the same cuDNN version for the same kind of device.
  // Nothing is compiled.
  static StatusOr<DnnPlan> Restore(const DnnDescriptor& device, std::string_view text);
  // Returns the plan as text, including compiled code.
  StatusOr<std::string> text() const;
  size_t workspace() const { return workspace_; }  // bytes
  // Runs the plan on the handle's stream. `given` must contain every tensor in memory and every
  // number.
  Status Run(cudnnHandle_t handle, std::span<const Given> given, void* workspace) const;

 private:
  std::vector<DnnDescriptor> parts_;
  size_t workspace_;
};

// Builds a graph. All tensors have their channels last. The first error is stored; making a plan
// returns it. Sums are f32.
class DnnGraph {
 public:
  using Id = int64_t;                   // of a tensor
  using Dims = std::array<int64_t, 4>;  // images, channels, rows, columns

  Id Tensor(cudnnDataType_t type, const Dims& dims);   // in memory, aligned to 16 bytes
  Id Between(cudnnDataType_t type, const Dims& dims);  // intermediate value between two operations
  Id Number();  // one f32 in host memory, read when the plan runs
  Id Channels(int64_t channels) { return Tensor(CUDNN_DATA_FLOAT, {1, channels, 1, 1}); }

  struct Window {
    std::array<int64_t, 2> stride, pad, dilation;
  };
  // y = x * w, with w [filters, channels of a group, rows, columns], and its gradients.
  void Convolution(Id x, Id w, Id y, const Window& window);
  void ConvolutionInputGrad(Id w, Id gy, Id gx, const Window& window);
  void ConvolutionFilterGrad(Id x, Id gy, Id gw, const Window& window);
  // y = mode(a, b). b may have one element per channel, or one element.
  void Pointwise(cudnnPointwiseMode_t mode, Id a, Id b, Id y);
  // y = max(x, 0); NaN where x is NaN.
  void Relu(Id x, Id y);

  // saved_inv = 1 / sqrt(variance + epsilon). The variance is divided by n.
  struct BatchNormTensors {
    Id x, scale, bias, epsilon, y, saved_mean, saved_inv;
  };
  // Batch normalisation for training, without running statistics.
  void BatchNorm(const BatchNormTensors& t);
  struct BatchNormGradTensors {
    Id x, gy, scale, saved_mean, saved_inv, gx, gscale, gbias;
  };
  void BatchNormGrad(const BatchNormGradTensors& t);

  // Returns a description of the graph. Equal graphs have equal keys.
  const std::string& key() const { return key_; }
  // Numbers of cuDNN's proposals for a device. First come those of its heuristics, best first. From
  // kFallback on come proposals for the case that none of these works.
  static constexpr size_t kFallback = 8, kProposals = 16;
  // NOT_FOUND: there are fewer proposals. Other errors: the plan is not deterministic or cannot be
  // made.
  StatusOr<DnnPlan> MakeProposal(const DnnDescriptor& device, size_t number) const;
  // Returns the first plan that can be made with at most `workspace_max` bytes of workspace.
  // UNIMPLEMENTED: there is none.
  StatusOr<DnnPlan> MakePlan(const DnnDescriptor& device, size_t workspace_max) const;

  class Builder;  // fills a descriptor

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
  std::vector<DnnDescriptor> parts_;  // descriptors that operations use, except tensors
  std::string key_;
};

}  // namespace tandem
