// Columns of a table that a program hands over in memory, instead of files.
#pragma once

#include <string>
#include <vector>

namespace tandem::reader {

// A column of numbers or of texts.
struct MemoryColumn {
  std::string name;
  bool is_text = false;            // true: `texts` has the values; false: `numbers` has them
  std::vector<double> numbers;     // NaN: the value is missing
  std::vector<std::string> texts;  // "": the value is missing

  size_t rows() const { return is_text ? texts.size() : numbers.size(); }
};

struct MemoryColumns {
  std::string name;     // the table in messages
  bool arrays = false;  // true: "x.0" is the first column of the array "x", as in files of numpy
  std::vector<MemoryColumn> columns;
};

}  // namespace tandem::reader
