#include "common/base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/require.h"

namespace tandem {
namespace {

class CounterImpl final : public Counter {
 public:
  explicit CounterImpl(prometheus::Counter& c) : c_(c) {}
  void Add(double by) override { c_.Increment(by); }
  double Value() const override { return c_.Value(); }

 private:
  prometheus::Counter& c_;
};

class GaugeImpl final : public Gauge {
 public:
  explicit GaugeImpl(prometheus::Gauge& g) : g_(g) {}
  void Set(double value) override { g_.Set(value); }
  void SetToCurrentTime() override {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    g_.Set(std::chrono::duration<double>(since).count());
  }
  double Value() const override { return g_.Value(); }

 private:
  prometheus::Gauge& g_;
};

class HistogramImpl final : public Histogram {
 public:
  explicit HistogramImpl(prometheus::Histogram& h) : h_(h) {}
  void Observe(double value) override { h_.Observe(value); }

 private:
  prometheus::Histogram& h_;
};

}  // namespace

struct Metrics::Impl {
  using Key = std::pair<std::string, Labels>;
  prometheus::Registry registry;
  Mutex mu;
  std::map<Key, std::unique_ptr<Counter>> counters TD_GUARDED_BY(mu);
  std::map<Key, std::unique_ptr<Gauge>> gauges TD_GUARDED_BY(mu);
  std::map<Key, std::unique_ptr<Histogram>> histograms TD_GUARDED_BY(mu);
  // Former names of metrics. The key is the current name of the metric.
  std::map<std::string, std::string> former_names TD_GUARDED_BY(mu);

  void Note(const MetricName& name) TD_REQUIRES(mu) {
    TD_REQUIRE(name.current != name.former);
    if (!name.former.empty()) former_names[name.current] = name.former;
  }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

Counter& Metrics::GetCounter(const MetricName& name, const std::string& help,
                             const Labels& labels) {
  MutexLock lock(impl_->mu);
  TD_REQUIRE(!name.current.empty() && impl_->gauges.count({name.current, labels}) == 0);
  auto& slot = impl_->counters[{name.current, labels}];
  if (!slot) {
    impl_->Note(name);
    auto& family =
        prometheus::BuildCounter().Name(name.current).Help(help).Register(impl_->registry);
    slot = std::make_unique<CounterImpl>(family.Add(labels));
  }
  return *slot;
}

Gauge& Metrics::GetGauge(const MetricName& name, const std::string& help, const Labels& labels) {
  MutexLock lock(impl_->mu);
  TD_REQUIRE(!name.current.empty() && impl_->counters.count({name.current, labels}) == 0);
  auto& slot = impl_->gauges[{name.current, labels}];
  if (!slot) {
    impl_->Note(name);
    auto& family = prometheus::BuildGauge().Name(name.current).Help(help).Register(impl_->registry);
    slot = std::make_unique<GaugeImpl>(family.Add(labels));
  }
  return *slot;
}

Histogram& Metrics::GetHistogram(const MetricName& name, const std::string& help,
                                 const std::vector<double>& bounds, const Labels& labels) {
  MutexLock lock(impl_->mu);
  TD_REQUIRE(!name.current.empty() && std::is_sorted(bounds.begin(), bounds.end()));
  auto& slot = impl_->histograms[{name.current, labels}];
  if (!slot) {
    impl_->Note(name);
    auto& family =
        prometheus::BuildHistogram().Name(name.current).Help(help).Register(impl_->registry);
    slot = std::make_unique<HistogramImpl>(family.Add(labels, bounds));
  }
  return *slot;
}

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  {
    MutexLock lock(impl_->mu);
    for (size_t i = 0, current = families.size(); i < current; ++i) {
      const auto former = impl_->former_names.find(families[i].name);
      if (former == impl_->former_names.end()) continue;
      prometheus::MetricFamily family = families[i];
      family.help = "Former name of " + family.name;
      family.name = former->second;
      families.push_back(std::move(family));
    }
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

}  // namespace tandem
