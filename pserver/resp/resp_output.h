// The replies to a Redis client that are not sent yet, in RESP2 or RESP3.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

namespace tandem::pserver {

// A buffer that grows. Not thread-safe. Array and Map begin a reply whose elements the next calls
// append.
class RespOutput {
 public:
  // Maximum size of the text before the bytes of a bulk string, and of the text after it.
  static constexpr size_t kBulkExtra = 24;

  // `version`: 2 or 3, the version of the protocol for Null and Map.
  void set_version(int version) { version_ = version; }
  int version() const { return version_; }

  void Simple(std::string_view text) { Line('+', text); }
  // Appends an error. `text` begins with a code such as "ERR". Line ends in `text` become spaces.
  void Error(std::string_view text) {
    Line('-', text);
    char* const begin = data_.get() + size_ - 2 - text.size();
    std::replace_if(
        begin, begin + text.size(), [](char c) { return c == '\r' || c == '\n'; }, ' ');
  }
  void Integer(int64_t value) { Number(':', value); }
  // Begins a bulk string. The caller appends its `bytes` bytes, then "\r\n".
  void BulkHead(size_t bytes) { Number('$', static_cast<int64_t>(bytes)); }
  void Bulk(std::string_view bytes) {
    BulkHead(bytes.size());
    Append(bytes);
    Append("\r\n");
  }
  void Array(size_t elements) { Number('*', static_cast<int64_t>(elements)); }
  // Begins a map. RESP2 has no maps, so the reply is an array of names and values.
  void Map(size_t entries) {
    Number(version_ == 3 ? '%' : '*', static_cast<int64_t>(version_ == 3 ? entries : 2 * entries));
  }

  void Append(std::string_view bytes) {
    std::memcpy(Extend(bytes.size()), bytes.data(), bytes.size());
  }
  // Appends `bytes` bytes without values, and returns their address, which is valid until the next
  // call.
  char* Extend(size_t bytes) {
    if (capacity_ - size_ < bytes) Reserve(size_ + bytes);
    size_ += bytes;
    return data_.get() + size_ - bytes;
  }

  const char* data() const { return data_.get(); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  // Removes all bytes. Keeps at most `keep_max` bytes of memory.
  void Clear(size_t keep_max) {
    size_ = 0;
    if (capacity_ <= keep_max) return;
    data_.reset();
    capacity_ = 0;
  }

 private:
  void Reserve(size_t bytes) {
    constexpr size_t kLeast = 1024;
    const size_t more = std::max({bytes, capacity_ + capacity_ / 2, kLeast});
    auto grown = std::make_unique_for_overwrite<char[]>(more);
    if (size_ != 0) std::memcpy(grown.get(), data_.get(), size_);
    data_ = std::move(grown);
    capacity_ = more;
  }
  void Line(char type, std::string_view text) {
    *Extend(1) = type;
    Append(text);
    Append("\r\n");
  }
  void Number(char type, int64_t value) {
    char text[kBulkExtra];
    text[0] = type;
    char* const end = std::to_chars(text + 1, text + sizeof(text) - 2, value).ptr;
    end[0] = '\r';
    end[1] = '\n';
    Append({text, static_cast<size_t>(end + 2 - text)});
  }

  int version_ = 2;
  std::unique_ptr<char[]> data_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace tandem::pserver
