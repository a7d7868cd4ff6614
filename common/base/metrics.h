// Named counters, gauges and histograms, printed in the text format of Prometheus. Metric names
// follow the rules of Prometheus: base units, `_seconds`, `_bytes`, `_total`. Each daemon has one
// registry, which main creates and passes to the other parts.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(double by) = 0;
  virtual double Value() const = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  // Sets the gauge to the current time, in seconds since 1970, UTC.
  virtual void SetToCurrentTime() = 0;
  virtual double Value() const = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

// The name of a metric. A renamed metric is also shown under its former name for some time.
struct MetricName {
  MetricName(std::string shown) : current(std::move(shown)) {}
  MetricName(const char* shown) : current(shown) {}
  MetricName(std::string shown, std::string before)
      : current(std::move(shown)), former(std::move(before)) {}

  std::string current;
  std::string former;  // name in earlier versions, which Text() also shows; "": none
};

// A registry of metrics. Thread-safe. Returned metrics live as long as the registry. Two calls with
// the same name and labels return the same metric.
class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;

  Metrics();
  ~Metrics();
  Counter& GetCounter(const MetricName& name, const std::string& help, const Labels& labels = {});
  Gauge& GetGauge(const MetricName& name, const std::string& help, const Labels& labels = {});
  // `bounds`: upper bounds of the histogram buckets, ascending, in the unit of the name.
  Histogram& GetHistogram(const MetricName& name, const std::string& help,
                          const std::vector<double>& bounds, const Labels& labels = {});
  // Returns all registered metrics in the text format of Prometheus. A metric with a former name
  // appears twice: under its current name, and at the end under its former name.
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
