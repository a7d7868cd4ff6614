// A plot of lines and dots with logarithmic axes, as SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::deploy {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>>
      points;         // (x, y), x ascending; points that are not > 0 are skipped
  bool dots = false;  // instead of a line
};

struct Plot {
  std::string title, note, x_name, y_name;  // any text
  int x_base = 10;                          // base of the grid lines in x; in y it is 10
  std::vector<PlotSeries> series;
};

// An image of 860 x 520, with the legend on the right.
std::string PlotSvg(const Plot& plot);

}  // namespace tandem::deploy
