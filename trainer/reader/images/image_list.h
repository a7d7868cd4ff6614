// JPEG and PNG images that a list names, like ImageNet. A line of the list is `path label`. In each
// epoch the training samples are cropped and mirrored again, at random, and normalised.
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

inline constexpr uint64_t kImageBytesMax = uint64_t{1} << 30;  // maximum size of an image file

struct ImageListOptions {
  // Path of the list; blank lines and lines that begin with '#' are ignored.
  std::string list;
  std::string root;        // base directory of relative paths in the list
  int64_t classes = 1000;  // number of classes; labels are in [0, classes)
  int64_t size = 224;      // width and height of a sample
  bool nhwc = false;       // true: channels last, [size, size, 3]; false: [3, size, size]

  // True: a training sample is a random rectangle of the image. The share of the area is uniform in
  // [area_min, area_max]. The logarithm of width / height is uniform between log(3/4) and log(4/3).
  // The position is uniform. If ten drawn rectangles do not fit into the image, the sample is the
  // centre of the image. The rectangle is scaled to `size`, and mirrored in half of the cases.
  // Source: Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, as in torchvision's
  // RandomResizedCrop.
  bool random = true;
  double area_min = 0.08, area_max = 1;
  bool flip = true;
  // Without `random` a sample is the centre of the image: the image is scaled so that its shorter
  // side is `resize`, and cropped to `size`.
  int64_t resize = 256;

  // Mean and standard deviation of each colour for pixel values in [0, 1]; the defaults are
  // ImageNet's.
  std::array<float, 3> mean = {0.485f, 0.456f, 0.406f};
  std::array<float, 3> stddev = {0.229f, 0.224f, 0.225f};
  // True: the samples are decoded pixels, from which the operator sample_image computes the same
  // samples, bit for bit.
  bool raw = false;
  uint64_t seed = 1;  // a sample depends only on the seed, the epoch and its position in the list
  int threads = 0;    // number of decoder threads; 0: number of processors
  uint32_t samples_max = 0;  // number of images of the list to use, from the first on; 0: all
  int64_t bad_records_max = 0;
};

struct ListedImage {
  std::string path;  // relative to ImageListOptions::root, or absolute
  int32_t label = 0;
};

// Returns the size, layout and normalisation of a sample.
ops::ImageForm FormOf(const ImageListOptions& options);

// Opens the list. The fields are "img" f32 and "label" i64 [1]. With `raw` the inputs of
// sample_image replace "img": kImagePixels (packed), kImageSizes and kImageTaps.
//
// Images are read when a batch needs them. An unreadable or damaged image is logged and replaced by
// the next image of the list. DATA_LOSS: there are more than bad_records_max bad images; the
// message names the image. Damaged lines of the list are counted separately, with the same limit,
// and added to `warnings`. INVALID_ARGUMENT: an option is out of range. Other errors are those of
// ReadLines() for the list.
StatusOr<std::unique_ptr<Dataset>> OpenImageList(const ImageListOptions& options,
                                                 std::vector<std::string>* warnings);

// Opens images that are listed already, as OpenImageList() does. `options.list` is their name in
// messages. Ignores samples_max. DATA_LOSS: `images` is empty. INVALID_ARGUMENT: an option is out
// of range, or there are 2^32 images or more. REQUIRES: labels are in [0, options.classes).
StatusOr<std::unique_ptr<Dataset>> OpenImages(const ImageListOptions& options,
                                              std::vector<ListedImage> images);

}  // namespace tandem::reader
