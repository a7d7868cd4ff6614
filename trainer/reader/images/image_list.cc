#include "trainer/reader/images/image_list.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <set>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/base/rng.h"
#include "common/threads/runner.h"
#include "kernels/ops/formulas/sample_image.h"
#include "trainer/reader/images/image_decoder.h"
#include "trainer/reader/images/image_resample.h"
#include "trainer/reader/input/input_file.h"
#include "trainer/reader/input/text_lines.h"
#include "trainer/reader/input/text_values.h"

namespace tandem::reader {
namespace {

using ops::PackedImage;

constexpr uint64_t kDraws = 16;  // random numbers per sample in the random stream of its epoch
// Maximum number of random rectangles that are drawn for a sample. The random number after those of
// the rectangles determines whether the image is mirrored.
constexpr uint64_t kTries = 10;

class ListSink final : public LineSink {
 public:
  explicit ListSink(const ImageListOptions& options) : options_(options) {}

  Status Add(std::string_view line) override {
    if (line.starts_with('#')) return OkStatus();
    line = Trimmed(line);
    const size_t blank = line.find_last_of(" \t");
    if (blank == std::string_view::npos) return DataLoss("the line is not a path and a label");
    const std::string_view label = line.substr(blank + 1);
    const char* const end = label.data() + label.size();
    const ScannedIndex number = ScanIndex(label.data(), end);
    if (number.stop != end || number.value >= options_.classes) {
      return DataLoss("the label is \"%s\", expected 0 to %d", std::string(label),
                      options_.classes - 1);
    }
    entries_.push_back(
        {std::string(Trimmed(line.substr(0, blank))), static_cast<int32_t>(number.value)});
    return OkStatus();
  }
  LinePiece Finish() override {
    const size_t records = entries_.size();
    return {std::make_shared<std::vector<ListedImage>>(std::exchange(entries_, {})), records};
  }

 private:
  const ImageListOptions& options_;
  std::vector<ListedImage> entries_;
};

double Unit(uint32_t word) { return word * 0x1p-32; }

// Draws the random rectangle of the image for sample `id`; see ImageListOptions.
ImageRect RandomRect(const ImageSize& image, const ImageListOptions& options, uint64_t key,
                     uint64_t id) {
  const double log_min = std::log(3.0 / 4), log_max = std::log(4.0 / 3);
  const double all = static_cast<double>(image.width) * image.height;
  for (uint64_t attempt = 0; attempt < kTries; ++attempt) {
    const auto word = Philox(key, id * kDraws + attempt);
    const double area =
        all * (options.area_min + Unit(word[0]) * (options.area_max - options.area_min));
    const double ratio = std::exp(log_min + Unit(word[1]) * (log_max - log_min));
    const auto width = static_cast<int>(std::lround(std::sqrt(area * ratio)));
    const auto height = static_cast<int>(std::lround(std::sqrt(area / ratio)));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    return {static_cast<int>(Unit(word[2]) * (image.width - width + 1)),
            static_cast<int>(Unit(word[3]) * (image.height - height + 1)), width, height};
  }
  int width = image.width, height = image.height;
  if (width * 4.0 < height * 3.0) height = static_cast<int>(std::lround(width * 4.0 / 3));
  if (width * 3.0 > height * 4.0) width = static_cast<int>(std::lround(height * 4.0 / 3));
  return {(image.width - width) / 2, (image.height - height) / 2, width, height};
}

ImageRect CentreRect(const ImageSize& image, const ImageListOptions& options) {
  const int shorter = std::min(image.width, image.height);
  const double share = static_cast<double>(options.size) / static_cast<double>(options.resize);
  const int side = std::clamp(static_cast<int>(std::lround(shorter * share)), 1, shorter);
  return {(image.width - side) / 2, (image.height - side) / 2, side, side};
}

// The memory with which a thread makes a sample. Later samples reuse this memory.
struct Workbench {
  ImageDecoder decoder;
  ImageResampler resampler;
  std::vector<char> file;
};

class ImageList final : public Dataset {
 public:
  ImageList(const ImageListOptions& options, std::vector<ListedImage> entries, int threads)
      : options_(options),
        entries_(std::move(entries)),
        threads_(static_cast<size_t>(threads)),
        pool_("decoder", threads, 1024) {
    const int64_t size = options.size;
    const Shape shape = options.nhwc ? Shape{size, size, 3} : Shape{3, size, size};
    if (options.raw) {
      fields_ = {{.name = kImagePixels, .desc = {DType::kU8, {12 * size * size}}, .packed = true},
                 {.name = kImageSizes, .desc = {DType::kI64, {3}}},
                 {.name = kImageTaps, .desc = {DType::kI32, {2, size}}}};
    } else {
      fields_ = {{.name = kImageField, .desc = {DType::kF32, shape}}};
    }
    fields_.push_back({"label", {DType::kI64, {1}}, options.classes});
  }

  uint32_t size() const override { return static_cast<uint32_t>(entries_.size()); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    return FillEpoch(0, ids, out);
  }
  Status FillEpoch(uint64_t epoch, std::span<const uint32_t> ids,
                   std::span<void* const> out) const override;
  size_t BytesOf(size_t f, size_t samples, std::span<void* const> filled) const override;
  std::string Describe() const override {
    return absl::StrFormat("%s: %d images of %d classes as %dx%d", options_.list, size(),
                           options_.classes, options_.size, options_.size);
  }

 private:
  struct Job;
  void Work(Job& job) const;
  // Makes sample i of the job. If the image of the sample is bad, uses the next readable image of
  // the list.
  Status Make(Job& job, size_t i, Workbench& bench) const;
  // Makes sample i of the job from the image with number `id`.
  Status MakeOne(Job& job, size_t i, uint32_t id, Workbench& bench) const;
  void Pack(Job& job, size_t i, const ImagePixels& pixels, bool flip) const;
  Status NoteBad(uint32_t id, const Status& status) const;
  std::unique_ptr<Workbench> TakeBench() const;

  const ImageListOptions options_;
  const std::vector<ListedImage> entries_;
  const size_t threads_;
  std::vector<SampleField> fields_;
  mutable Mutex mu_;
  // The workbenches that no thread uses at the moment.
  mutable std::vector<std::unique_ptr<Workbench>> benches_ TD_GUARDED_BY(mu_);
  mutable std::set<uint32_t> bad_ TD_GUARDED_BY(mu_);
  mutable ThreadPool pool_;  // last member: its threads end before other members are destroyed
};

// One call of FillEpoch, whose samples several threads make.
struct ImageList::Job {
  uint64_t key;
  std::span<const uint32_t> ids;
  std::span<void* const> out;
  std::atomic<size_t> next{0};
  std::atomic<size_t> packed{0};  // bytes of pixels that are already stored
  Mutex mu;
  CondVar changed;
  size_t helpers TD_GUARDED_BY(mu) = 0;  // number of threads that may still use this object
  Status first_error TD_GUARDED_BY(mu);
};

// Stores the pixels of a sample after the samples that are already stored.
void ImageList::Pack(Job& job, size_t i, const ImagePixels& pixels, bool flip) const {
  const auto size = static_cast<int>(options_.size);
  const auto count = static_cast<size_t>(size) * 2;
  const std::span taps(static_cast<int32_t*>(job.out[2]) + i * count, count);
  const ImageSize packed = PackedSize(pixels, size);
  const size_t bytes = static_cast<size_t>(packed.width) * static_cast<size_t>(packed.height) * 3;
  const size_t begin = job.packed.fetch_add(bytes);
  static_cast<PackedImage*>(job.out[1])[i] = {static_cast<int64_t>(begin), packed.width,
                                              packed.height};
  PlaceTaps(pixels, size, flip, taps);
  PackPixels(pixels, size, taps, static_cast<uint8_t*>(job.out[0]) + begin);
}

size_t ImageList::BytesOf(size_t f, size_t samples, std::span<void* const> filled) const {
  if (!fields_[f].packed) return Dataset::BytesOf(f, samples, filled);
  const std::span images(static_cast<const PackedImage*>(filled[1]), samples);
  int64_t bytes = 0;
  for (const PackedImage& image : images) {
    bytes = std::max(bytes, image.begin + image.width * image.height * 3);
  }
  return static_cast<size_t>(bytes);
}

Status ImageList::MakeOne(Job& job, size_t i, uint32_t id, Workbench& bench) const {
  const std::string& name = entries_[id].path;
  const std::string path = name.starts_with('/') ? name : options_.root + "/" + name;
  TD_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > kImageBytesMax)
    return DataLoss("image %s is larger than %d bytes, which is not supported", path,
                    kImageBytesMax);
  bench.file.resize(file.size());
  TD_ASSIGN_OR_RETURN(const size_t bytes, file.Read(0, bench.file.data(), bench.file.size()));
  const auto opened = bench.decoder.Open({bench.file.data(), bytes});
  if (!opened.ok()) return Annotate(opened.status(), path);
  ImageRect rect = CentreRect(*opened, options_);
  bool flip = false;
  if (options_.random) {
    rect = RandomRect(*opened, options_, job.key, id);
    flip = options_.flip && (Philox(job.key, id * kDraws + kTries)[0] & 1) != 0;
  }
  const auto size = static_cast<int>(options_.size);
  const auto pixels = bench.decoder.Decode(rect, {size, size});
  if (!pixels.ok()) return Annotate(pixels.status(), path);
  if (options_.raw) {
    Pack(job, i, *pixels, flip);
  } else {
    const auto elements = static_cast<size_t>(fields_[0].desc.shape.numel());
    bench.resampler.Run(*pixels, FormOf(options_), flip,
                        static_cast<float*>(job.out[0]) + i * elements);
  }
  return OkStatus();
}

Status ImageList::NoteBad(uint32_t id, const Status& status) const {
  MutexLock lock(mu_);
  const bool is_new = bad_.insert(id).second;
  const auto count = static_cast<int64_t>(bad_.size());
  if (count > options_.bad_records_max) {
    return DataLoss(
        "%s (image %d of %s); this is bad record %d, but max_bad_records is %d [TD2003]",
        std::string(status.message()), id + 1, options_.list, count, options_.bad_records_max);
  }
  if (is_new) LOG(WARNING) << status.message() << ": the reader uses the next image instead";
  return OkStatus();
}

Status ImageList::Make(Job& job, size_t i, Workbench& bench) const {
  for (uint32_t tries = 0; tries < size(); ++tries) {
    const uint32_t at = static_cast<uint32_t>((uint64_t{job.ids[i]} + tries) % size());
    const Status status = MakeOne(job, i, at, bench);
    if (status.ok()) {
      static_cast<int64_t*>(job.out.back())[i] = entries_[at].label;
      return OkStatus();
    }
    TD_RETURN_IF_ERROR(NoteBad(at, status));
  }
  return DataLoss("%s: none of the listed images can be read [TD2003]", options_.list);
}

std::unique_ptr<Workbench> ImageList::TakeBench() const {
  MutexLock lock(mu_);
  if (benches_.empty()) return std::make_unique<Workbench>();
  auto bench = std::move(benches_.back());
  benches_.pop_back();
  return bench;
}

void ImageList::Work(Job& job) const {
  std::unique_ptr<Workbench> bench = TakeBench();
  for (size_t i; (i = job.next++) < job.ids.size();) {
    const Status status = Make(job, i, *bench);
    if (status.ok()) continue;
    job.next = job.ids.size();
    MutexLock lock(job.mu);
    if (job.first_error.ok()) job.first_error = status;
  }
  MutexLock lock(mu_);
  benches_.push_back(std::move(bench));
}

Status ImageList::FillEpoch(uint64_t epoch, std::span<const uint32_t> ids,
                            std::span<void* const> out) const {
  CHECK_EQ(out.size(), fields_.size());
  for (const uint32_t id : ids) {
    if (id >= size())
      return OutOfRange("%s has no sample %d, expected a number below %d", options_.list, id,
                        size());
  }
  Job job{
      .key = StreamKey(options_.seed, "image:" + std::to_string(epoch)), .ids = ids, .out = out};
  for (size_t i = 1; i < std::min(threads_, ids.size()); ++i) {
    MutexLock lock(job.mu);
    const Status posted = pool_.Post([this, &job] {
      Work(job);
      MutexLock done(job.mu);
      --job.helpers;
      job.changed.NotifyAll();
    });
    if (posted.ok()) ++job.helpers;  // if the task was rejected, the other threads make the samples
  }
  Work(job);
  MutexLock lock(job.mu);
  while (job.helpers > 0) job.changed.WaitUntil(job.mu, Time::max());
  return job.first_error;
}

Status Check(const ImageListOptions& options) {
  const auto check = [](const char* name, int64_t value, int64_t min, int64_t max) {
    if (value >= min && value <= max) return OkStatus();
    return InvalidArgument("%s is %d, expected %d to %d [TD1104]", name, value, min, max);
  };
  TD_RETURN_IF_ERROR(check("size", options.size, 1, 4096));
  TD_RETURN_IF_ERROR(check("resize", options.resize, options.size, 65536));
  TD_RETURN_IF_ERROR(check("classes", options.classes, 1, 1 << 30));
  TD_RETURN_IF_ERROR(check("threads", options.threads, 0, 1024));
  if (!(options.area_min > 0 && options.area_min <= options.area_max && options.area_max <= 1)) {
    return InvalidArgument(
        "area_min is %g and area_max is %g, expected ascending values above 0 and at most 1 "
        "[TD1104]",
        options.area_min, options.area_max);
  }
  for (const float stddev : options.stddev) {
    if (!(stddev > 0)) return InvalidArgument("stddev is %g, expected above 0 [TD1104]", stddev);
  }
  return OkStatus();
}

}  // namespace

ops::ImageForm FormOf(const ImageListOptions& options) {
  ops::ImageForm form{.size = options.size, .channels_last = options.nhwc};
  for (size_t c = 0; c < 3; ++c) {
    form.scale[c] = 1 / (255 * options.stddev[c]);
    form.bias[c] = -options.mean[c] / options.stddev[c];
  }
  return form;
}

StatusOr<std::unique_ptr<Dataset>> OpenImageList(const ImageListOptions& options,
                                                 std::vector<std::string>* warnings) {
  TD_RETURN_IF_ERROR(Check(options));
  const LineReading reading = {.threads = options.threads,
                               .bad_records_max = options.bad_records_max,
                               .records_max = options.samples_max};
  const auto make = [&](size_t) { return std::make_unique<ListSink>(options); };
  TD_ASSIGN_OR_RETURN(auto pieces, ReadLines(options.list, reading, make, warnings));
  std::vector<ListedImage> entries;
  for (LinePiece& piece : pieces) {
    auto& more = *static_cast<std::vector<ListedImage>*>(piece.data.get());
    std::move(more.begin(), more.end(), std::back_inserter(entries));
  }
  if (options.samples_max > 0 && entries.size() > options.samples_max) {
    entries.resize(options.samples_max);
  }
  return OpenImages(options, std::move(entries));
}

StatusOr<std::unique_ptr<Dataset>> OpenImages(const ImageListOptions& options,
                                              std::vector<ListedImage> images) {
  TD_RETURN_IF_ERROR(Check(options));
  if (images.empty()) return DataLoss("%s: there is no image [TD2006]", options.list);
  if (images.size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("%s has more than 2^32 images, which is not supported [TD1104]",
                           options.list);
  }
  TD_REQUIRE(std::ranges::all_of(images, [&options](const ListedImage& image) {
    return image.label >= 0 && image.label < options.classes;
  }));
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = options.threads > 0 ? options.threads : std::max(processors, 1);
  return std::make_unique<ImageList>(options, std::move(images), threads);
}

}  // namespace tandem::reader
