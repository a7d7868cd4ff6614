// A plot of lines and dots with logarithmic axes, as SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::deploy {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>>
      points;         // (x, y), x ascending; what is not > 0 is left out
  bool dots = false;  // instead of a line
};

struct Plot {
  std::string title, note, x_name, y_name;  // any text
  int x_base = 10;                          // grid lines at its powers; of y at powers of 10
  std::vector<PlotSeries> series;
};

// One picture of 860 x 520, legend at the right.
std::string PlotSvg(const Plot& plot);

}  // namespace tandem::deploy
