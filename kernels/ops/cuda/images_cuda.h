// Computes the addresses of elements of images [n,c,h,w] in device memory, in layout NCHW or NHWC.
#pragma once

#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/cuda/cuda_launch.h"

namespace tandem::ops {

struct CudaImages {
  int64_t channels, height, width;
  bool last;  // true: channels last (NHWC); false: NCHW

  struct Place {
    int64_t n, c, y, x;
  };
  // Return the distance in elements between horizontal (X) and vertical (Y) neighbours.
  __device__ int64_t StepX() const { return last ? channels : 1; }
  __device__ int64_t StepY() const { return width * StepX(); }
  // Returns the offset of the first element of channel c of image n.
  __device__ int64_t Plane(int64_t n, int64_t c) const {
    return last ? n * height * width * channels + c : (n * channels + c) * height * width;
  }
  __device__ int64_t At(int64_t n, int64_t c, int64_t y, int64_t x) const {
    return Plane(n, c) + y * StepY() + x * StepX();
  }
  __device__ Place PlaceOf(int64_t i) const {
    const int64_t d1 = last ? channels : width, d2 = last ? width : height;
    const int64_t d3 = last ? height : channels;
    const int64_t q1 = Quotient(i, d1), q2 = Quotient(q1, d2), q3 = Quotient(q2, d3);
    const int64_t r1 = i - q1 * d1, r2 = q1 - q2 * d2, r3 = q2 - q3 * d3;
    return last ? Place{q3, r1, r3, r2} : Place{q3, r3, r2, r1};
  }
};

}  // namespace tandem::ops
