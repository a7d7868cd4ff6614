// Named counters, gauges and histograms, printed in Prometheus text format. Names follow its rules:
// base units, `_seconds`, `_bytes`, `_total`. Each daemon has one registry, made in main and passed
// down.
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
  virtual void SetToCurrentTime() = 0;  // seconds since 1970, UTC
  virtual double Value() const = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

// The name of a metric. During a renaming the metric has its name of earlier versions too.
struct MetricName {
  MetricName(std::string shown) : current(std::move(shown)) {}
  MetricName(const char* shown) : current(shown) {}
  MetricName(std::string shown, std::string before)
      : current(std::move(shown)), former(std::move(before)) {}

  std::string current;
  std::string former;  // Text() shows the metric under this name too; "": none
};

// A registry of metrics. Thread-safe. Returned objects live as long as the registry. The same name
// and labels give the same object.
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
  // Returns the Prometheus text exposition of all registered metrics, then of those with a former
  // name under that name.
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
