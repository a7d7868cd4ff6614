#include "trainer/reader/images/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::reader {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
constexpr size_t kMessageMax = 128;  // maximum length of the message of libpng

}  // namespace

bool IsPng(std::string_view file) { return file.starts_with(kSignature); }

struct PngDecoder::State {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string_view rest;  // bytes of the file that libpng has not read
  ImageSize size;
  int passes = 1;  // 7: the image is interlaced
  char message[kMessageMax] = "";
  std::vector<uint8_t> whole;   // all rows of an interlaced image
  std::vector<uint8_t> row;     // one row of another image
  std::vector<uint32_t> sums;   // sums of the rows that become one row of `pixels`
  std::vector<uint8_t> pixels;  // the decoded part

  static void OnError(png_structp png, png_const_charp message);
  static void OnWarning(png_structp, png_const_charp) {}
  static void OnRead(png_structp png, png_bytep to, size_t bytes);

  // Only the following functions call the library. They return false if the library fails;
  // `message` then contains the cause.
  bool ReadHeader();
  bool StartRows();
  bool ReadRow(uint8_t* to);
  bool ReadWhole();

  void Close() { png_destroy_read_struct(&png, &info, nullptr); }
  void AddRow(const uint8_t* from, const DecodedPart& part);
  void FinishRow(int at, int rows, const DecodedPart& part);
};

// libpng jumps (longjmp) from its own frames to the calling function.
void PngDecoder::State::OnError(png_structp png, png_const_charp message) {
  auto* state = static_cast<State*>(png_get_error_ptr(png));
  std::strncpy(state->message, message, kMessageMax - 1);
  png_longjmp(png, 1);
}

void PngDecoder::State::OnRead(png_structp png, png_bytep to, size_t bytes) {
  auto* state = static_cast<State*>(png_get_io_ptr(png));
  if (bytes > state->rest.size()) png_error(png, "the file is truncated");
  std::memcpy(to, state->rest.data(), bytes);
  state->rest.remove_prefix(bytes);
}

bool PngDecoder::State::ReadHeader() {
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
  CHECK(png != nullptr);
  info = png_create_info_struct(png);
  CHECK(info != nullptr);
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_read_fn(png, this, OnRead);
  // Texts and colour profiles are not unpacked.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  // Open() checks the size, with a message that says the limits.
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_read_info(png, info);
  return true;
}

bool PngDecoder::State::StartRows() {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  const int type = png_get_color_type(png, info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  // Also spreads grey values of 1, 2 and 4 bits over 0 to 255.
  if ((type & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

bool PngDecoder::State::ReadRow(uint8_t* to) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_row(png, to, nullptr);
  return true;
}

// Reads all rows of an interlaced image, whose passes change every row several times.
bool PngDecoder::State::ReadWhole() {
  const size_t row_bytes = static_cast<size_t>(size.width) * 3;
  whole.assign(row_bytes * static_cast<size_t>(size.height), 0);
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < size.height; ++y) {
      if (!ReadRow(whole.data() + static_cast<size_t>(y) * row_bytes)) return false;
    }
  }
  return true;
}

// Adds the pixels of a row of the image to the sums.
void PngDecoder::State::AddRow(const uint8_t* from, const DecodedPart& part) {
  const int begin = part.first_column * part.scale;
  const int end = std::min((part.first_column + part.columns) * part.scale, size.width);
  TD_REQUIRE(begin < end && sums.size() == static_cast<size_t>(part.columns) * 3);
  for (int x = begin; x < end; ++x) {
    uint32_t* const sum = sums.data() + static_cast<size_t>((x - begin) / part.scale) * 3;
    for (size_t c = 0; c < 3; ++c) sum[c] += from[static_cast<size_t>(x) * 3 + c];
  }
}

// Writes row `at` of the part: the means of the sums of `rows` rows of the image.
void PngDecoder::State::FinishRow(int at, int rows, const DecodedPart& part) {
  TD_REQUIRE(at < part.rows && rows > 0 && rows <= part.scale);
  uint8_t* to = pixels.data() + static_cast<size_t>(at) * static_cast<size_t>(part.columns) * 3;
  for (int column = 0; column < part.columns; ++column) {
    const int x = (part.first_column + column) * part.scale;
    const auto count = static_cast<uint32_t>(std::min(part.scale, size.width - x) * rows);
    for (size_t c = 0; c < 3; ++c) {
      *to++ = static_cast<uint8_t>((sums[static_cast<size_t>(column) * 3 + c] + count / 2) / count);
    }
  }
  std::ranges::fill(sums, 0);
}

PngDecoder::PngDecoder() : state_(std::make_unique<State>()) {}

PngDecoder::~PngDecoder() { state_->Close(); }

StatusOr<ImageSize> PngDecoder::Open(std::string_view file) {
  state_->Close();
  state_->rest = file;
  if (!state_->ReadHeader()) {
    return DataLoss("the file is not a PNG image, or is damaged: %s", state_->message);
  }
  TD_ASSIGN_OR_RETURN(state_->size, ToImageSize(png_get_image_width(state_->png, state_->info),
                                                png_get_image_height(state_->png, state_->info)));
  return state_->size;
}

StatusOr<ImagePixels> PngDecoder::Decode(const ImageRect& rect, const ImageSize& wanted) {
  State& state = *state_;
  TD_REQUIRE(state.png != nullptr && state.size.width > 0);
  const auto damaged = [&state] { return DataLoss("the PNG image is damaged: %s", state.message); };
  const DecodedPart part = PartOf(state.size, rect, wanted);
  if (!state.StartRows()) return damaged();
  const size_t row_bytes = static_cast<size_t>(state.size.width) * 3;
  CHECK_EQ(png_get_rowbytes(state.png, state.info), row_bytes);
  const bool interlaced = state.passes > 1;
  if (interlaced && !state.ReadWhole()) return damaged();
  state.row.resize(interlaced ? 0 : row_bytes);
  state.sums.assign(static_cast<size_t>(part.columns) * 3, 0);
  state.pixels.resize(state.sums.size() * static_cast<size_t>(part.rows));
  const int first = part.first_row * part.scale;
  const int end = std::min((part.first_row + part.rows) * part.scale, state.size.height);
  for (int y = interlaced ? first : 0; y < end; ++y) {
    if (!interlaced && !state.ReadRow(state.row.data())) return damaged();
    if (y < first) continue;
    state.AddRow(
        interlaced ? state.whole.data() + static_cast<size_t>(y) * row_bytes : state.row.data(),
        part);
    const int at = (y - first) / part.scale;
    if ((y + 1 - first) % part.scale == 0 || y + 1 == end) {
      state.FinishRow(at, y + 1 - first - at * part.scale, part);
    }
  }
  return PixelsOf(state.pixels.data(), part, rect);
}

}  // namespace tandem::reader
