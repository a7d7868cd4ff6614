// reader_jpeg: speed of the reader that makes training samples of 224 x 224 from JPEG files of
// ImageNet's usual size.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "tests/bench/report.h"
#include "tests/support/jpeg_test_util.h"
#include "trainer/reader/images/image_list.h"
#include "trainer/reader/images/jpeg.h"

namespace tandem::bench {
namespace {

constexpr int kWidth = 500, kHeight = 375, kQuality = 90;
constexpr uint32_t kImages = 64;

// Returns an image of noise in five octaves. The JPEG file of the image has about 50 KB, slightly
// less than the file of a photograph of this size.
std::vector<uint8_t> Picture(uint64_t number) {
  std::vector<float> sum(size_t{kWidth} * kHeight * 3, 128.0f);
  for (int octave = 0; octave < 5; ++octave) {
    const int cell = 64 >> (octave * 3 / 2);
    const int columns = kWidth / cell + 2, rows = kHeight / cell + 2;
    const uint64_t key = StreamKey(number, "octave:" + std::to_string(octave));
    std::vector<float> grid(static_cast<size_t>(columns * rows) * 3);
    for (size_t i = 0; i < grid.size(); ++i) {
      grid[i] = (UniformAt(key, i) - 0.5f) * 90.0f / static_cast<float>(octave + 1);
    }
    size_t at = 0;
    for (int y = 0; y < kHeight; ++y) {
      const float fy = static_cast<float>(y % cell) / static_cast<float>(cell);
      for (int x = 0; x < kWidth; ++x) {
        const float fx = static_cast<float>(x % cell) / static_cast<float>(cell);
        const float* corner = grid.data() + static_cast<size_t>(y / cell * columns + x / cell) * 3;
        const float* below = corner + static_cast<size_t>(columns) * 3;
        for (int c = 0; c < 3; ++c) {
          const float upper = corner[c] + (corner[c + 3] - corner[c]) * fx;
          const float lower = below[c] + (below[c + 3] - below[c]) * fx;
          sum[at++] += upper + (lower - upper) * fy;
        }
      }
    }
  }
  std::vector<uint8_t> pixels(sum.size());
  std::transform(sum.begin(), sum.end(), pixels.begin(),
                 [](float v) { return static_cast<uint8_t>(std::clamp(v, 0.0f, 255.0f)); });
  return pixels;
}

Status WriteImages(const std::string& folder) {
  std::string list;
  for (uint32_t i = 0; i < kImages; ++i) {
    const std::string name = absl::StrFormat("%03d.jpg", i);
    std::ofstream out(folder + "/" + name, std::ios::binary);
    out << EncodeJpeg(Picture(i), kWidth, kHeight, 3, kQuality);
    list += absl::StrFormat("%s %d\n", name, i);
    if (!out) return DataLoss("%s/%s: cannot be written", folder, name);
  }
  std::ofstream out(folder + "/list.txt");
  out << list;
  return out ? OkStatus() : DataLoss("%s/list.txt: cannot be written", folder);
}

// Measures a loop in which the reader's JPEG library only decodes whole images. Returns the images
// per second: an upper bound for readers that decode whole images.
StatusOr<double> DecodeAlone(const std::string& folder, double seconds) {
  std::vector<std::string> files;
  for (uint32_t i = 0; i < kImages; ++i) {
    std::ifstream in(absl::StrFormat("%s/%03d.jpg", folder, i), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  reader::JpegDecoder decoder;
  double images = 0, taken = 0;
  const Time start = SteadyNow();
  while (taken < seconds) {
    for (const std::string& file : files) {
      TD_RETURN_IF_ERROR(decoder.Open(file).status());
      TD_RETURN_IF_ERROR(decoder.Decode({0, 0, kWidth, kHeight}, {kWidth, kHeight}).status());
    }
    images += kImages;
    taken = Seconds(SteadyNow() - start);
  }
  return images / taken;
}

// Returns the number of samples per second that `data` writes into the buffers `to`. After the
// call, `to` holds the samples of the last epoch.
StatusOr<double> SamplesAlone(const reader::Dataset& data, std::span<void* const> to,
                              double seconds) {
  std::vector<uint32_t> ids(kImages);
  std::iota(ids.begin(), ids.end(), 0u);
  TD_RETURN_IF_ERROR(data.FillEpoch(0, ids, to));
  double samples = 0, taken = 0;
  const Time start = SteadyNow();
  for (uint64_t epoch = 1; taken < seconds; ++epoch) {
    TD_RETURN_IF_ERROR(data.FillEpoch(epoch, ids, to));
    samples += kImages;
    taken = Seconds(SteadyNow() - start);
  }
  return samples / taken;
}

// Measures reading a list of images in raw form (use_dali), in which the reader only decodes and
// packs pixels. Reports the images per second and the bytes per sample.
Status AddRaw(reader::ImageListOptions images, double seconds, Report* report) {
  images.raw = true;
  std::vector<std::string> warnings;
  TD_ASSIGN_OR_RETURN(const auto data, reader::OpenImageList(images, &warnings));
  std::vector<std::vector<std::byte>> fields;
  std::vector<void*> to;
  for (const reader::SampleField& field : data->fields()) {
    to.push_back(fields.emplace_back(kImages * field.desc.bytes()).data());
  }
  TD_ASSIGN_OR_RETURN(const double rate, SamplesAlone(*data, to, seconds));
  report->Add("raw_images_per_s", rate);
  size_t bytes = 0;
  for (size_t f = 0; f < to.size(); ++f) bytes += data->BytesOf(f, kImages, to);
  report->Add("raw_bytes", static_cast<double>(bytes) / kImages);
  return OkStatus();
}

}  // namespace

StatusOr<Report> ReaderJpeg(const RunOptions& options) {
  const std::string& folder = options.export_dir;
  if (folder.empty()) return InvalidArgument("--export_dir=DIR: where the files are");
  if (!std::filesystem::exists(folder + "/list.txt")) TD_RETURN_IF_ERROR(WriteImages(folder));
  reader::ImageListOptions images;
  images.list = folder + "/list.txt";
  images.root = folder;
  images.threads = options.threads;
  std::vector<std::string> warnings;
  TD_ASSIGN_OR_RETURN(const auto data, reader::OpenImageList(images, &warnings));
  std::vector<float> out(size_t{kImages} * 3 * 224 * 224);
  std::vector<int64_t> labels(kImages);
  void* const to[] = {out.data(), labels.data()};
  TD_ASSIGN_OR_RETURN(const double rate, SamplesAlone(*data, to, options.seconds));
  Report report;
  report.Add("images_per_s", rate);
  report.Add("mean",
             std::accumulate(out.begin(), out.end(), 0.0) / static_cast<double>(out.size()));
  TD_RETURN_IF_ERROR(AddRaw(images, options.seconds / 2, &report));
  TD_ASSIGN_OR_RETURN(const double whole, DecodeAlone(folder, options.seconds / 2));
  report.Add("whole_decodes_per_s", whole);
  return report;
}

}  // namespace tandem::bench
