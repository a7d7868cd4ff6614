// A list with a fixed capacity, whose items are stored in the list object itself. Tables of
// definitions consist of such lists, so that the compiler can initialise them (constinit).
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>

#include "common/base/require.h"

namespace tandem::ops {

template <typename T, size_t kCapacity>
class ShortList {
 public:
  constexpr ShortList() = default;
  // REQUIRES: at most kCapacity items. A constant with more items does not compile.
  constexpr ShortList(std::initializer_list<T> items) {
    TD_REQUIRE(items.size() <= kCapacity);
    for (const T& item : items) items_[size_++] = item;
  }

  constexpr const T* begin() const { return items_; }
  constexpr const T* end() const { return items_ + size_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t i) const {
    TD_REQUIRE(i < size_);
    return items_[i];
  }
  constexpr const T& back() const { return (*this)[size_ - 1]; }
  constexpr operator std::span<const T>() const { return {items_, size_}; }

  // Returns a copy of this list, followed by the items of `more`. REQUIRES: at most kCapacity items
  // in total.
  constexpr ShortList With(std::initializer_list<T> more) const {
    TD_REQUIRE(size_ + more.size() <= kCapacity);
    ShortList all = *this;
    for (const T& item : more) all.items_[all.size_++] = item;
    return all;
  }

 private:
  T items_[kCapacity] = {};
  size_t size_ = 0;
};

}  // namespace tandem::ops
