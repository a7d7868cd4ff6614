#include "trainer/reader/input/gunzip.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::reader {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

}  // namespace

Status Gunzip::Open() {
  if (inflateInit2(&z_, 15 + 16) != Z_OK)
    return ResourceExhausted("cannot decompress %s: not enough memory for zlib", name_);
  open_ = true;
  return OkStatus();
}

Status Gunzip::Read(size_t bytes_max, std::vector<uint8_t>& out) {
  TD_REQUIRE(open_);
  while (bytes_max > 0 && !done_) {
    const size_t before = out.size(), want = std::min(bytes_max, kChunkBytes);
    out.resize(before + want);
    z_.next_out = out.data() + before;
    z_.avail_out = static_cast<uInt>(want);
    const Status status = Step();
    const size_t got = want - z_.avail_out;
    out.resize(before + got);
    bytes_max -= got;
    TD_RETURN_IF_ERROR(status);
  }
  return OkStatus();
}

Status Gunzip::Step() {
  if (z_.avail_in == 0) {
    const size_t n = std::min(file_.size() - fed_, kChunkBytes);
    z_.next_in = const_cast<Bytef*>(file_.data() + fed_);  // zlib does not write to next_in
    z_.avail_in = static_cast<uInt>(n);
    fed_ += n;
  }
  const size_t out_before = z_.avail_out;
  const bool no_input = z_.avail_in == 0;
  const int rc = inflate(&z_, Z_NO_FLUSH);
  if (rc == Z_STREAM_END) return EndOfMember();
  if (rc != Z_OK && rc != Z_BUF_ERROR) {
    return DataLoss(
        "%s: offset %d: the gzip data are damaged (%s) [TD2002]; hint: download the file again",
        name_, fed_ - z_.avail_in, z_.msg != nullptr ? z_.msg : "zlib error");
  }
  if (no_input && z_.avail_out == out_before) {
    return DataLoss(
        "%s: offset %d: the gzip data are truncated [TD2002]; hint: download or copy the file "
        "again",
        name_, file_.size());
  }
  return OkStatus();
}

Status Gunzip::EndOfMember() {
  const size_t at = fed_ - z_.avail_in;
  if (at == file_.size()) {
    done_ = true;
    return OkStatus();
  }
  if (!IsGzip(file_.subspan(at))) {
    return DataLoss(
        "%s: offset %d: %d bytes follow the end of the gzip data [TD2002]; hint: download the "
        "file again",
        name_, at, file_.size() - at);
  }
  inflateReset(&z_);
  return OkStatus();
}

}  // namespace tandem::reader
