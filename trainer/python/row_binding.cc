// Binds functions on the rows of a batch, for the tables of PyTorch models
// (tandem/torch/tables.py).
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/ps/row_index.h"
#include "trainer/python/bindings.h"
#include "trainer/python/elements.h"
#include "trainer/python/errors.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

// Returns (the distinct ids, ascending; for each id its position in them). OUT_OF_RANGE: an id is
// not in [0, height).
py::tuple IndexRows(const py::buffer& ids, int64_t height, const std::string& table) {
  const std::span<const int64_t> given = Ids(ids, table);
  trainer::RowIndex index;
  auto places = NewArrayOf<int64_t>(given.size());
  int64_t* const to = places.mutable_data();
  {
    const py::gil_scoped_release release;
    if (!given.empty()) {
      const auto [low, high] = std::minmax_element(given.begin(), given.end());
      if (*low < 0 || *high >= height) {
        throw StatusError(
            OutOfRange("table \"%s\": ids are from %d to %d, but the table has %d rows [TD1206]",
                       table, *low, *high, height));
      }
    }
    const std::span<const int64_t> pieces[] = {given};
    index.Set(pieces, -1);
    std::copy(index.places().begin(), index.places().end(), to);
  }
  auto rows = NewArrayOf<int64_t>(index.rows().size());
  std::copy(index.rows().begin(), index.rows().end(), rows.mutable_data());
  return py::make_tuple(rows, places);
}

// The gradient of sums of rows. Bag b has the rows places[begins[b]] to places[begins[b + 1] - 1].
struct BagGradient {
  std::span<const int64_t> places, begins;
  std::span<const float> grads;  // dim values for each bag
  std::span<float> sums;         // receives dim values for each row
  size_t dim = 0;
  int64_t padding = -1;  // a row that is left out; -1: none
  bool mean = false;     // whether a bag is the mean of its rows

  // Checks that all positions are in range.
  void Require() const {
    const auto bags = static_cast<int64_t>(begins.size()) - 1;
    const auto rows = static_cast<int64_t>(sums.size() / dim);
    bool good = bags >= 0 && grads.size() == static_cast<size_t>(bags) * dim &&
                sums.size() % dim == 0 && begins.front() >= 0 &&
                begins.back() <= static_cast<int64_t>(places.size()) &&
                std::is_sorted(begins.begin(), begins.end());
    for (const int64_t place : places) good = good && place >= 0 && place < rows;
    if (!good) {
      throw StatusError(InvalidArgument(
          "the positions of %d bags do not ascend from 0 to %d, or a row is not one of %d [TD1206]",
          bags, places.size(), rows));
    }
  }

  // Adds in the order of the positions, so the bits do not depend on threads.
  void Add() const {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (size_t bag = 0; bag + 1 < begins.size(); ++bag) {
      const auto ids = places.subspan(static_cast<size_t>(begins[bag]),
                                      static_cast<size_t>(begins[bag + 1] - begins[bag]));
      const auto count = static_cast<float>(
          ids.size() - static_cast<size_t>(std::count(ids.begin(), ids.end(), padding)));
      const float scale = mean && count > 0 ? 1 / count : 1;
      const float* const grad = grads.data() + bag * dim;
      for (const int64_t place : ids) {
        if (place == padding) continue;
        float* const sum = sums.data() + static_cast<size_t>(place) * dim;
        for (size_t i = 0; i < dim; ++i) sum[i] += scale * grad[i];
      }
    }
  }
};

void AddBags(const py::buffer& places, const py::buffer& begins, const py::buffer& grads,
             const py::buffer& sums, int64_t dim, int64_t padding, bool mean) {
  BagGradient gradient;
  gradient.places = Ids(places, "places");
  gradient.begins = Ids(begins, "begins");
  gradient.grads = ConstFloats(grads, "grads");
  gradient.sums = Floats(sums, "sums");
  if (dim < 1 || gradient.begins.empty()) {
    throw StatusError(
        InvalidArgument("bags of %d values with %d begins, expected at least 1 of "
                        "both [TD1206]",
                        dim, gradient.begins.size()));
  }
  gradient.dim = static_cast<size_t>(dim);
  gradient.padding = padding;
  gradient.mean = mean;
  const py::gil_scoped_release release;
  gradient.Require();
  gradient.Add();
}

}  // namespace

void BindRows(py::module_& module) {
  module.def("index_rows", &IndexRows, py::arg("ids"), py::arg("height"), py::arg("table"));
  module.def("add_bags", &AddBags, py::arg("places"), py::arg("begins"), py::arg("grads"),
             py::arg("sums"), py::arg("dim"), py::arg("padding"), py::arg("mean"));
}

}  // namespace tandem::python
