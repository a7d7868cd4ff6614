// Texts of Python for the values of enumerations.
#pragma once

#include <pybind11/stl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/nearest.h"
#include "trainer/python/errors.h"

namespace tandem::python {

// Initial values of variables, in the order of graph::Init::Kind and of ps::PsTable::InitKind.
inline constexpr const char* kInitKinds[] = {"constant", "uniform", "normal", "xavier_uniform",
                                             "msra_normal"};

// Returns the position of `word` in `words`. Throws StatusError if `words` lacks it. `what`: name
// of the property, for the error message. The caller holds the GIL.
template <size_t kCount>
size_t Position(const char* const (&words)[kCount], const std::string& word,
                const std::string& what) {
  const std::vector<std::string> known(words, words + kCount);
  for (size_t i = 0; i < kCount; ++i) {
    if (word == words[i]) return i;
  }
  throw StatusError(InvalidArgument("%s: expected one of %s, got \"%s\" [TD1006]%s", what,
                                    pybind11::str(pybind11::cast(known)).cast<std::string>(), word,
                                    OrDidYouMean(word, known)));
}

}  // namespace tandem::python
