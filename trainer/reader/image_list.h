// JPEG images named in a list, as ImageNet is kept: `path label` a line. Training samples are cut
// out, mirrored and normalised anew in every epoch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops/conv/sample_image.h"
#include "trainer/reader/dataset.h"

namespace tandem {

inline constexpr char kImageField[] = "img";
inline constexpr char kImagePixels[] = "img@PIXELS";
inline constexpr char kImageSizes[] = "img@SIZES";
inline constexpr char kImageTaps[] = "img@TAPS";

struct ImageListOptions {
  std::string list;  // file; blank lines and what follows a '#' at a line's begin do not count
  std::string root;  // folder that relative paths begin at
  int64_t classes = 1000;  // labels are in [0, classes)
  int64_t size = 224;      // of a sample, width and height
  bool nhwc = false;       // channels last, [size, size, 3]; else [3, size, size]

  // Training samples: a rectangle of a share of the image's area, drawn evenly from [area_min,
  // area_max], with a ratio of width to height whose logarithm is drawn evenly from that of 3/4 to
  // that of 4/3, at an even place; the centre when ten of them do not fit. Scaled to size, and
  // mirrored in half of the cases. Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, as
  // torchvision's RandomResizedCrop does it.
  bool random = true;
  double area_min = 0.08, area_max = 1;
  bool flip = true;
  // Otherwise the centre: the image with its shorter side scaled to `resize`, cut to size.
  int64_t resize = 256;

  std::array<float, 3> mean = {0.485f, 0.456f, 0.406f};  // of [0, 1]; ImageNet's
  std::array<float, 3> stddev = {0.229f, 0.224f, 0.225f};
  // Decoded pixels alone, of which sample_image makes the samples, to the bit.
  bool raw = false;
  uint64_t seed = 1;         // samples depend on seed, epoch and place in the list alone
  int threads = 0;           // that decode; 0: as many as the machine has processors
  uint32_t samples_max = 0;  // the first so many of the list; 0: all
  int64_t bad_records_max = 0;
};

// What is made of pixels.
ImageForm FormOf(const ImageListOptions& options);

// Fields: "img" f32 and "label" i64 [1]; raw: kImagePixels, packed, kImageSizes and kImageTaps, the
// inputs of sample_image, in place of "img". Images are read when they are asked for: one that
// cannot be read or is damaged is named in the log, and the next one of the list takes its place; a
// further one than bad_records_max is DATA_LOSS naming it. Damaged lines of the list count
// likewise, on their own, and are named in `warnings`. INVALID_ARGUMENT for options out of range;
// else as ReadLines() for the list.
StatusOr<std::unique_ptr<Dataset>> OpenImageList(const ImageListOptions& options,
                                                 std::vector<std::string>* warnings);

}  // namespace tandem
