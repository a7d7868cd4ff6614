#include "common/tensor/device_pool.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem {

DevicePool::~DevicePool() {
  MutexLock lock(mu_);
  TD_REQUIRE(counts_.used_bytes == 0);
  for (const auto& [memory, block] : blocks_) {
    if (block.begins_chunk) driver_.free(memory);
  }
}

StatusOr<std::byte*> DevicePool::Take(size_t bytes) {
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  MutexLock lock(mu_);
  auto fit = free_.lower_bound({rounded, nullptr});
  if (fit == free_.end()) {
    TD_RETURN_IF_ERROR(AddChunk(rounded));
    fit = free_.lower_bound({rounded, nullptr});
  }
  std::byte* const memory = fit->second;
  free_.erase(fit);
  Block& block = blocks_.at(memory);
  if (block.bytes > rounded) {
    blocks_[memory + rounded] = {block.bytes - rounded, true, false};
    free_.insert({block.bytes - rounded, memory + rounded});
    block.bytes = rounded;
  }
  TD_REQUIRE(block.free && block.bytes == rounded);
  block.free = false;
  counts_.used_bytes += rounded;
  return memory;
}

void DevicePool::Give(std::byte* memory) {
  MutexLock lock(mu_);
  auto it = blocks_.find(memory);
  CHECK(it != blocks_.end() && !it->second.free);
  TD_REQUIRE(counts_.used_bytes >= it->second.bytes);
  counts_.used_bytes -= it->second.bytes;
  it->second.free = true;
  it = Join(it);
  if (pools()) {
    free_.insert({it->second.bytes, it->first});
    return;
  }
  counts_.driver_bytes -= it->second.bytes;
  driver_.free(it->first);
  blocks_.erase(it);
}

// Merges a free block with its free neighbours in the same chunk.
DevicePool::Blocks::iterator DevicePool::Join(Blocks::iterator block) {
  const auto next = std::next(block);
  if (next != blocks_.end() && next->second.free && !next->second.begins_chunk) {
    free_.erase({next->second.bytes, next->first});
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block->second.begins_chunk) return block;
  const auto before = std::prev(block);
  if (!before->second.free) return block;
  free_.erase({before->second.bytes, before->first});
  before->second.bytes += block->second.bytes;
  blocks_.erase(block);
  return before;
}

// Returns the size of the next chunk in bytes, according to the options.
size_t DevicePool::ChunkBytes() {
  const size_t given = counts_.driver_calls == 0 ? options_.first_bytes : options_.more_bytes;
  if (given > 0 || options_.fraction == 0) return given;
  return static_cast<size_t>(options_.fraction * static_cast<double>(driver_.free_bytes()));
}

Status DevicePool::AddChunk(size_t bytes) {
  size_t chunk = std::max(bytes, ChunkBytes() / kAlignment * kAlignment);
  const size_t limit = options_.limit_bytes, have = counts_.driver_bytes;
  if (limit > 0) chunk = std::max(bytes, std::min(chunk, limit - std::min(limit, have)));
  if (limit > 0 && have + bytes > limit) {
    return ResourceExhausted(
        "cannot allocate %d bytes on %s: gpu_memory_limit_mb allows %d bytes, of which %d bytes "
        "are in use [TD5004]",
        bytes, device_, limit, counts_.used_bytes);
  }
  // The first attempt requests a whole chunk. The second attempt requests only `bytes`, because the
  // driver's free memory may be fragmented.
  if (AskDriver(chunk) || (chunk > bytes && AskDriver(bytes))) return OkStatus();
  return ResourceExhausted(
      "cannot allocate %d bytes on %s: the device has %d free bytes, and this process uses %d of "
      "its %d allocated bytes [TD5004]",
      bytes, device_, driver_.free_bytes(), counts_.used_bytes, have);
}

bool DevicePool::AskDriver(size_t bytes) {
  ++counts_.driver_calls;
  std::byte* const memory = driver_.allocate(bytes);
  if (memory == nullptr) return false;
  counts_.driver_bytes += bytes;
  blocks_[memory] = {bytes, true, true};
  free_.insert({bytes, memory});
  return true;
}

DeviceMemoryCounts DevicePool::counts() const {
  MutexLock lock(mu_);
  return counts_;
}

}  // namespace tandem
