// Fuzz target: lists of images. One image file exists that a list may name.
#include "trainer/reader/images/image_list.h"

#include "kernels/ops/formulas/sample_image.h"
#include "tests/fuzz/file_target.h"
#include "tests/support/jpeg_test_util.h"

namespace tandem {
namespace {

// Checks that the raw form of the list gives the sample `want` for its first image.
void CheckRaw(reader::ImageListOptions options, const std::vector<float>& want) {
  options.raw = true;
  std::vector<std::string> warnings;
  const auto data = reader::OpenImageList(options, &warnings);
  CHECK(data.ok()) << data.status();
  std::vector<uint8_t> pixels((*data)->fields()[0].desc.bytes());
  ops::PackedImage image{};
  std::vector<int32_t> taps(2 * 4);
  int64_t label = -1;
  void* const out[] = {pixels.data(), &image, taps.data(), &label};
  const uint32_t first = 0;
  const Status status = (*data)->Fill({&first, 1}, out);
  CHECK(status.ok()) << status;
  CHECK(ops::LiesIn(image, 4, static_cast<int64_t>(pixels.size())));
  std::vector<std::byte> scratch(ops::ImageScratchBytes(image.width));
  std::vector<float> got(want.size());
  ops::SampleImage(reader::FormOf(options), pixels.data() + image.begin, image.width, image.height,
                   taps.data(), scratch.data(), got.data());
  CHECK(got == want);
}

Status Open(const std::string& path) {
  reader::ImageListOptions options;
  options.list = path;
  options.root = std::filesystem::path(path).parent_path();
  options.classes = 5;
  options.size = 4;
  options.threads = 1;
  options.bad_records_max = kFormatBadMax;
  const std::string image = options.root + "/a.jpg";
  if (!std::filesystem::exists(image)) {
    trainer::WriteFile(image, EncodeJpeg(std::vector<uint8_t>(20 * 10 * 3, 7), 20, 10, 3, 80));
  }
  std::vector<std::string> warnings;
  TD_ASSIGN_OR_RETURN(const auto data, reader::OpenImageList(options, &warnings));
  std::vector<float> pixels(3 * 4 * 4);
  int64_t label = -1;
  void* const out[] = {pixels.data(), &label};
  const uint32_t first = 0;
  // Reading fails if the list names files that do not exist.
  TD_RETURN_IF_ERROR(data->Fill({&first, 1}, out));
  CHECK(label >= 0 && label < options.classes) << label;
  CheckRaw(options, pixels);
  return OkStatus();
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  return {{"# a list\na.jpg 0\n a.jpg\t4 \n\na.jpg 3\r\na.jpg 1\na.jpg 2\n"},
          {" ", "\t", "\n", "#", "a.jpg", "/", "..", "99999999999999999999"},
          FileAccepts(Open)};
}

}  // namespace tandem
