#include "trainer/reader/images/jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>

#include "common/base/check.h"

namespace tandem::reader {
namespace {

// Maximum number of scans. The decoder rejects an image with more scans, because such an image may
// be an attack that wastes processor time.
constexpr int kScansMax = 500;

// The error state of libjpeg. On an error the library jumps (longjmp) from its own frames to the
// calling function.
struct Errors {
  jpeg_error_mgr manager;  // first member, because libjpeg has its address
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

void OnError(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}

// Returns whether the warning `code` means that pixels are wrong.
bool IsDamage(int code) {
  switch (code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
      return false;
    default:
      return true;
  }
}

void OnMessage(j_common_ptr info, int level) {
  if (level < 0 && IsDamage(info->err->msg_code)) OnError(info);
}

void OnProgress(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number > kScansMax) ERREXIT(info, JERR_BAD_PROGRESSION);
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct info;
  Errors errors;
  jpeg_progress_mgr progress;
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> cmyk;                                   // memory for one row of a CMYK image
  int first_row = 0, rows = 0, first_column = 0, columns = 0;  // the decoded part of the image

  // Only the following functions call the library. They return false if the library fails;
  // errors.message then contains the cause.
  bool ReadHeader(std::string_view file);
  bool Start(int denominator);
  bool ReadRows();
};

bool JpegDecoder::State::ReadHeader(std::string_view file) {
  if (setjmp(errors.jump) != 0) return false;
  jpeg_abort_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  return true;
}

bool JpegDecoder::State::Start(int denominator) {
  if (setjmp(errors.jump) != 0) return false;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(denominator);
  info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
  info.dct_method = JDCT_ISLOW;
  // Without fancy upsampling, libjpeg-turbo 2.1 upsamples and converts colours in one step. This
  // step sometimes crashes (in jcopy_sample_rows) if rows are skipped and columns are cropped.
  info.do_fancy_upsampling = TRUE;
  jpeg_start_decompress(&info);
  return true;
}

bool JpegDecoder::State::ReadRows() {
  if (setjmp(errors.jump) != 0) return false;
  auto column = static_cast<JDIMENSION>(first_column), width = static_cast<JDIMENSION>(columns);
  if (width < info.output_width) jpeg_crop_scanline(&info, &column, &width);
  first_column = static_cast<int>(column);
  columns = static_cast<int>(width);
  const size_t row_bytes = size_t{width} * 3;
  pixels.resize(row_bytes * static_cast<size_t>(rows));
  cmyk.resize(info.out_color_space == JCS_CMYK ? size_t{width} * 4 : 0);
  if (first_row > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(first_row));
  for (int row = 0; row < rows; ++row) {
    uint8_t* to = pixels.data() + static_cast<size_t>(row) * row_bytes;
    uint8_t* line = cmyk.empty() ? to : cmyk.data();
    jpeg_read_scanlines(&info, &line, 1);
    for (size_t i = 0; i < cmyk.size(); i += 4) {
      for (size_t c = 0; c < 3; ++c) *to++ = static_cast<uint8_t>(cmyk[i + c] * cmyk[i + 3] / 255);
    }
  }
  jpeg_abort_decompress(&info);
  return true;
}

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  state_->info.err = jpeg_std_error(&state_->errors.manager);
  state_->errors.manager.error_exit = OnError;
  state_->errors.manager.emit_message = OnMessage;
  if (setjmp(state_->errors.jump) != 0) CHECK(false) << state_->errors.message;
  jpeg_create_decompress(&state_->info);
  state_->progress = {};
  state_->progress.progress_monitor = OnProgress;
  state_->info.progress = &state_->progress;
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->info); }

StatusOr<ImageSize> JpegDecoder::Open(std::string_view file) {
  if (!state_->ReadHeader(file)) {
    return DataLoss("the file is not a JPEG image, or the format is not supported: %s",
                    state_->errors.message);
  }
  return ToImageSize(state_->info.image_width, state_->info.image_height);
}

StatusOr<ImagePixels> JpegDecoder::Decode(const ImageRect& rect, const ImageSize& wanted) {
  State& state = *state_;
  const ImageSize image = {static_cast<int>(state.info.image_width),
                           static_cast<int>(state.info.image_height)};
  DecodedPart part = PartOf(image, rect, wanted);
  if (!state.Start(part.scale)) {
    return DataLoss("the JPEG image is damaged: %s", state.errors.message);
  }
  state.first_row = part.first_row;
  state.rows = part.rows;
  state.first_column = part.first_column;
  state.columns = part.columns;
  if (!state.ReadRows()) return DataLoss("the JPEG image is damaged: %s", state.errors.message);
  part.first_column = state.first_column;
  part.columns = state.columns;
  return PixelsOf(state.pixels.data(), part, rect);
}

}  // namespace tandem::reader
