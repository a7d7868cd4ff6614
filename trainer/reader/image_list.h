// JPEG images named in a list, like ImageNet: `path label` per line. Each epoch crops, mirrors and
// normalises the training samples again.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops/conv/sample_image.h"
#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

inline constexpr char kImageField[] = "img";
inline constexpr char kImagePixels[] = "img@PIXELS";
inline constexpr char kImageSizes[] = "img@SIZES";
inline constexpr char kImageTaps[] = "img@TAPS";

struct ImageListOptions {
  std::string list;        // file; ignores blank lines and lines that begin with '#'
  std::string root;        // base directory of relative paths
  int64_t classes = 1000;  // labels are in [0, classes)
  int64_t size = 224;      // width and height of a sample
  bool nhwc = false;       // channels last, [size, size, 3]; else [3, size, size]

  // A training sample is a random rectangle of the image. Its share of the area is uniform in
  // [area_min, area_max]. The logarithm of width / height is uniform between those of 3/4 and 4/3.
  // Its position is uniform. If ten tries do not fit into the image, the centre is used. The
  // rectangle is scaled to size, and mirrored in half of the cases. Szegedy et al., "Going Deeper
  // with Convolutions", CVPR 2015, as in torchvision's RandomResizedCrop.
  bool random = true;
  double area_min = 0.08, area_max = 1;
  bool flip = true;
  // Otherwise the centre: the image is scaled so that its shorter side is `resize`, then cropped to
  // size.
  int64_t resize = 256;

  std::array<float, 3> mean = {0.485f, 0.456f, 0.406f};  // for values in [0, 1]; ImageNet's
  std::array<float, 3> stddev = {0.229f, 0.224f, 0.225f};
  // Returns decoded pixels; sample_image makes the samples from them, bit for bit the same.
  bool raw = false;
  uint64_t seed = 1;         // samples depend only on seed, epoch and position in the list
  int threads = 0;           // decoder threads; 0: number of processors
  uint32_t samples_max = 0;  // uses only the first samples_max images of the list; 0: all
  int64_t bad_records_max = 0;
};

// The form of a sample.
ImageForm FormOf(const ImageListOptions& options);

// Fields: "img" f32 and "label" i64 [1]. With `raw` the inputs of sample_image replace "img":
// kImagePixels (packed), kImageSizes and kImageTaps.
//
// Images are read on demand. An image that is unreadable or damaged is logged, and the next one of
// the list replaces it. DATA_LOSS: more than bad_records_max bad images; the message names the
// image. Damaged lines of the list have a separate count with the same limit, and are added to
// `warnings`. INVALID_ARGUMENT: options out of range. Other errors: as ReadLines() for the list.
StatusOr<std::unique_ptr<Dataset>> OpenImageList(const ImageListOptions& options,
                                                 std::vector<std::string>* warnings);

}  // namespace tandem::reader
