// Named counters, gauges and histograms, printed in Prometheus' text form. Names follow its rules:
// base units, `_seconds`, `_bytes`, `_total`. One registry per daemon, made in main, passed down.
#pragma once

#include <map>
#include <memory>
#include <string>
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

// Thread-safe. What it hands out lives as long as the registry; asking twice for the same name and
// labels gives the same object.
class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;

  Metrics();
  ~Metrics();
  Counter& GetCounter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& GetGauge(const std::string& name, const std::string& help, const Labels& labels = {});
  // `bounds`: upper bounds of the buckets, ascending, in the unit of the name.
  Histogram& GetHistogram(const std::string& name, const std::string& help,
                          const std::vector<double>& bounds, const Labels& labels = {});
  // Prometheus text exposition of everything registered.
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
