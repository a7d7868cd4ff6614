#include "trainer/reader/mnist.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trainer/reader/idx.h"

namespace tandem::reader {
namespace {

constexpr std::string_view kFashionMnist = "/usr/share/datasets/fashion-mnist";

// Returns a hint for a directory in which files are missing. The hint depends on the directory,
// because Debian has a package only for Fashion-MNIST.
std::string HintFor(const std::string& dir) {
  std::string_view folder = dir;
  while (folder.size() > 1 && folder.ends_with('/')) folder.remove_suffix(1);
  if (folder == kFashionMnist) {
    return "; hint: run apt-get install dataset-fashion-mnist, or name another directory with "
           "--data.dir=DIR";
  }
  return "; hint: name the directory with the four idx files with --data.dir=DIR";
}

class Mnist final : public Dataset {
 public:
  Mnist(const MnistOptions& options, IdxArray images, IdxArray labels, uint32_t samples)
      : options_(options),
        images_(std::move(images)),
        labels_(std::move(labels)),
        samples_(samples),
        pixels_(size_t{images_.dims[1]} * images_.dims[2]) {
    fields_ = {{"img", {options.image_dtype, {1, images_.dims[1], images_.dims[2]}}},
               {"label", {DType::kI64, {1}}}};
    for (size_t v = 0; v < scaled_.size(); ++v) {
      scaled_[v] = (static_cast<float>(v) / 255.0f - options.mean) / options.stddev;
    }
  }

  uint32_t size() const override { return samples_; }
  const std::vector<SampleField>& fields() const override { return fields_; }

  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    CHECK_EQ(out.size(), fields_.size());
    auto* labels = static_cast<int64_t*>(out[1]);
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t id = ids[i];
      if (id >= samples_)
        return OutOfRange("%s has no sample %d, expected a number below %d", options_.dir, id,
                          samples_);
      const uint8_t* pixels = images_.data.data() + id * pixels_;
      if (options_.image_dtype == DType::kU8) {
        std::memcpy(static_cast<uint8_t*>(out[0]) + i * pixels_, pixels, pixels_);
      } else {
        float* image = static_cast<float*>(out[0]) + i * pixels_;
        std::transform(pixels, pixels + pixels_, image, [this](uint8_t v) { return scaled_[v]; });
      }
      labels[i] = labels_.data[id];
    }
    return OkStatus();
  }

  std::string Describe() const override {
    return absl::StrFormat("%s: %d %s images %dx%d", options_.dir, samples_,
                           options_.train ? "training" : "test", images_.dims[1], images_.dims[2]);
  }

 private:
  const MnistOptions options_;
  const IdxArray images_, labels_;
  const uint32_t samples_;
  const size_t pixels_;  // number of pixels of an image
  std::vector<SampleField> fields_;
  std::array<float, 256> scaled_;  // normalised value for each of the 256 pixel values
};

bool Exists(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0;
}

// Returns the path of the file `base` in `dir`, either plain or with the suffix .gz.
StatusOr<std::string> FindFile(const std::string& dir, const std::string& base) {
  const std::string plain = dir + "/" + base;
  for (const std::string& path : {plain, plain + ".gz"}) {
    if (Exists(path)) return path;
  }
  return NotFound("there is neither a file %s nor a file %s.gz [TD2001]%s", plain, base,
                  HintFor(dir));
}

Status CheckOptions(const MnistOptions& options) {
  struct stat st;
  if (options.dir.empty())
    return InvalidArgument("the job names no data directory [TD2001]%s", HintFor(options.dir));
  if (stat(options.dir.c_str(), &st) != 0) {
    const int error = errno;
    if (error == EACCES)
      return PermissionDenied("cannot open data directory %s: %s [TD2106]", options.dir,
                              ErrnoText(error));
    return NotFound("data directory %s does not exist [TD2001]%s", options.dir,
                    HintFor(options.dir));
  }
  if (!S_ISDIR(st.st_mode)) {
    return NotFound("%s is not a directory [TD2001]%s", options.dir, HintFor(options.dir));
  }
  if (options.image_dtype != DType::kF32 && options.image_dtype != DType::kU8) {
    return InvalidArgument("%s: images of element type %s are not supported, expected f32 or u8",
                           options.dir, Name(options.image_dtype));
  }
  if (!(options.stddev > 0)) {
    return InvalidArgument("%s: stddev is %g, expected above 0 [TD1104]", options.dir,
                           options.stddev);
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Dataset>> OpenMnist(const MnistOptions& options) {
  TD_RETURN_IF_ERROR(CheckOptions(options));
  const std::string stem = options.train ? "train" : "t10k";
  TD_ASSIGN_OR_RETURN(const std::string image_file,
                      FindFile(options.dir, stem + "-images-idx3-ubyte"));
  TD_ASSIGN_OR_RETURN(const std::string label_file,
                      FindFile(options.dir, stem + "-labels-idx1-ubyte"));
  TD_ASSIGN_OR_RETURN(IdxArray images, ReadIdx(image_file, 3));
  TD_ASSIGN_OR_RETURN(IdxArray labels, ReadIdx(label_file, 1));

  const uint32_t count = images.dims[0];
  if (count != labels.dims[0]) {
    return DataLoss(
        "%s: offset 4: there are %d images, but %s has %d labels; the two files do not belong "
        "together [TD2002]",
        image_file, count, label_file, labels.dims[0]);
  }
  if (count == 0) return DataLoss("%s: offset 4: the file contains no images [TD2006]", image_file);
  if (images.dims[1] == 0 || images.dims[2] == 0) {
    return DataLoss("%s: offset 8: images have %dx%d pixels, expected at least 1x1", image_file,
                    images.dims[1], images.dims[2]);
  }
  for (size_t i = 0; i < labels.data.size(); ++i) {
    if (labels.data[i] >= options.classes) {
      return DataLoss(
          "%s: offset %d: label %d of sample %d is out of range: the %d classes are 0 to %d "
          "[TD2004]",
          label_file, 8 + i, labels.data[i], i, options.classes, options.classes - 1);
    }
  }
  const uint32_t samples = options.samples_max == 0 ? count : std::min(options.samples_max, count);
  return std::make_unique<Mnist>(options, std::move(images), std::move(labels), samples);
}

}  // namespace tandem::reader
