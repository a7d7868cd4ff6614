#include "trainer/reader/synthetic.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "common/base/rng.h"

namespace tandem::reader {
namespace {

// The pool contains normally distributed random numbers, drawn once. Patterns and noise are parts
// of the pool at different offsets, so that a sample costs only two additions per pixel.
constexpr uint32_t kPool = 1 << 16;

class Synthetic final : public Dataset {
 public:
  explicit Synthetic(const SyntheticOptions& options)
      : options_(options),
        plane_(options.image[1] * options.image[2]),
        class_at_(Permutation(StreamKey(options.seed, "synthetic classes"), kPool)),
        samples_key_(
            StreamKey(options.seed, options.train ? "synthetic train" : "synthetic test")) {
    fields_ = {{"img", {DType::kF32, Shape(options.image)}},
               {"label", {DType::kI64, {1}}, options.classes}};
    const uint64_t key = StreamKey(options.seed, "synthetic pool");
    for (uint32_t i = 0; i < kPool; ++i) pool_.push_back(NormalAt(key, i));
  }

  uint32_t size() const override { return options_.samples; }
  const std::vector<SampleField>& fields() const override { return fields_; }

  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    auto* image = static_cast<float*>(out[0]);
    auto* label = static_cast<int64_t*>(out[1]);
    const int64_t pixels = options_.image[0] * plane_;
    for (const uint32_t id : ids) {
      if (id >= size())
        return OutOfRange("synthetic data have no sample %d, expected a number below %d", id,
                          size());
      const auto draw = Philox(samples_key_, id);
      *label = draw[0] % options_.classes;
      const uint32_t from = class_at_[static_cast<size_t>(*label)];
      for (int64_t c = 0; c < options_.image[0]; ++c) {
        FillPlane(from, draw[1], c, image + c * plane_);
      }
      image += pixels;
      ++label;
    }
    return OkStatus();
  }

  std::string Describe() const override {
    return absl::StrFormat("%d synthetic images %s of %d classes", size(),
                           absl::StrJoin(options_.image, "x"), options_.classes);
  }

 private:
  float Pool(uint64_t i) const { return pool_[i % kPool]; }

  void FillPlane(uint32_t pattern, uint32_t noise, int64_t channel, float* out) const {
    const float colour = Pool(pattern + static_cast<uint64_t>(channel));
    const uint64_t at = static_cast<uint64_t>(channel * plane_);
    for (uint64_t p = 0; p < static_cast<uint64_t>(plane_); ++p) {
      out[p] = 0.5f * (colour + Pool(pattern + at + p)) + Pool(noise + at + p);
    }
  }

  const SyntheticOptions options_;
  const int64_t plane_;
  const std::vector<uint32_t> class_at_;  // offset of each class's pattern in the pool
  const uint64_t samples_key_;
  std::vector<float> pool_;
  std::vector<SampleField> fields_;
};

}  // namespace

StatusOr<std::unique_ptr<Dataset>> OpenSynthetic(const SyntheticOptions& options) {
  const auto& image = options.image;
  const bool sizes = image.size() == 3 && std::all_of(image.begin(), image.end(), [](int64_t d) {
                       return d >= 1 && d <= 1 << 14;
                     });
  if (!sizes) {
    return InvalidArgument(
        "data.synthetic.image is %s, expected channels, height and width [TD1104]",
        absl::StrJoin(image, ","));
  }
  if (options.classes < 2 || options.classes > kPool) {
    return InvalidArgument("data.synthetic.classes is %d, expected 2 to %d [TD1104]",
                           options.classes, kPool);
  }
  if (options.samples < 1)
    return InvalidArgument("data.synthetic.samples is 0, expected at least 1 [TD1104]");
  return std::make_unique<Synthetic>(options);
}

}  // namespace tandem::reader
