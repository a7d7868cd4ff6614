#include "deploy/cli/plan/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "common/base/require.h"

namespace tandem::deploy {
namespace {

constexpr double kWidth = 860, kHeight = 520;
constexpr double kLeft = 70, kRight = 690, kTop = 60, kBottom = 460;
// Colours for colour-blind readers too. Source: Okabe and Ito, "Color universal design", 2008.
constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#e69f00", "#56b4e9", "#000000"};

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// A logarithmic axis that begins and ends at a power of `base`.
class Axis {
 public:
  Axis(int base, double from, double to) : base_(base), from_(from), to_(to) {
    TD_REQUIRE(base > 1);
  }
  void Take(double value) {
    TD_REQUIRE(value > 0);
    least_ = std::min(least_, value);
    most_ = std::max(most_, value);
  }
  void Close() {
    if (least_ > most_) least_ = most_ = 1;
    first_ = static_cast<int>(std::floor(Power(least_) + 1e-9));
    last_ = std::max(first_ + 1, static_cast<int>(std::ceil(Power(most_) - 1e-9)));
  }
  double At(double value) const {
    TD_REQUIRE(last_ > first_);
    return from_ + (to_ - from_) * (Power(value) - first_) / (last_ - first_);
  }
  int first() const { return first_; }
  int last() const { return last_; }
  double Value(int power) const { return std::pow(base_, power); }

 private:
  double Power(double value) const { return std::log(value) / std::log(base_); }

  const int base_;
  const double from_, to_;
  double least_ = std::numeric_limits<double>::max(), most_ = 0;
  int first_ = 0, last_ = 1;
};

bool Shown(const std::pair<double, double>& point) { return point.first > 0 && point.second > 0; }

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const char* more = "") {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x, y,
                         anchor, more, Escaped(text));
}

std::string Grid(const Axis& x, const Axis& y) {
  std::string svg = "<g stroke=\"#dddddd\">\n";
  for (int p = x.first(); p <= x.last(); ++p) {
    const double at = x.At(x.Value(p));
    svg += absl::StrFormat("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", at, kTop,
                           at, kBottom);
  }
  for (int p = y.first(); p <= y.last(); ++p) {
    const double at = y.At(y.Value(p));
    svg += absl::StrFormat("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", kLeft, at,
                           kRight, at);
  }
  svg += "</g>\n";
  for (int p = x.first(); p <= x.last(); ++p) {
    svg += Text(x.At(x.Value(p)), kBottom + 18, "middle", absl::StrFormat("%g", x.Value(p)));
  }
  for (int p = y.first(); p <= y.last(); ++p) {
    svg += Text(kLeft - 8, y.At(y.Value(p)) + 4, "end", absl::StrFormat("%g", y.Value(p)));
  }
  return svg;
}

std::string Line(const PlotSeries& series, const Axis& x, const Axis& y, const char* color) {
  std::string svg;
  if (series.dots) {
    for (const auto& point : series.points) {
      if (!Shown(point)) continue;
      svg += absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n",
                             x.At(point.first), y.At(point.second), color);
    }
    return svg;
  }
  svg = "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"";
  svg += color;
  svg += "\" points=\"";
  for (const auto& point : series.points) {
    if (Shown(point)) svg += absl::StrFormat("%.1f,%.1f ", x.At(point.first), y.At(point.second));
  }
  return svg + "\"/>\n";
}

}  // namespace

std::string PlotSvg(const Plot& plot) {
  Axis x(plot.x_base, kLeft, kRight), y(10, kBottom, kTop);
  for (const PlotSeries& series : plot.series) {
    for (const auto& point : series.points) {
      if (!Shown(point)) continue;
      x.Take(point.first);
      y.Take(point.second);
    }
  }
  x.Close();
  y.Close();
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, kHeight, kWidth, kHeight);
  svg += Text(kLeft, 24, "start", plot.title, " font-size=\"16\"");
  svg += Text(kLeft, 44, "start", plot.note, " fill=\"#555555\"");
  svg += Grid(x, y);
  svg += Text((kLeft + kRight) / 2, kBottom + 40, "middle", plot.x_name);
  svg += Text(kLeft, kTop - 4, "end", plot.y_name);
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const char* color = kColors[i % std::size(kColors)];
    const double at = kTop + 10 + 18 * static_cast<double>(i);
    svg += Line(plot.series[i], x, y, color);
    svg += absl::StrFormat("<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"%d\" fill=\"%s\"/>\n",
                           kRight + 14, at - (plot.series[i].dots ? 9 : 5),
                           plot.series[i].dots ? 12 : 3, color);
    svg += Text(kRight + 32, at + 1, "start", plot.series[i].name);
  }
  return svg + "</svg>\n";
}

}  // namespace tandem::deploy
