// Draws lines and dots over logarithmic axes, as an SVG image.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::deploy {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>>
      points;  // points (x, y) in ascending order of x; points with x <= 0 or y <= 0 are skipped
  bool dots = false;  // true: draw the curve as dots instead of a line
};

struct Plot {
  // Texts of the plot; the SVG image contains them escaped.
  std::string title, note, x_name, y_name;
  int x_base = 10;  // base of the grid lines of x; the base of y is 10
  std::vector<PlotSeries> series;
};

// Returns an SVG image of 860 x 520 pixels, with the legend on the right.
std::string PlotSvg(const Plot& plot);

}  // namespace tandem::deploy
