#include "common/base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

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
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

Counter& Metrics::GetCounter(const std::string& name, const std::string& help,
                             const Labels& labels) {
  MutexLock lock(impl_->mu);
  TD_REQUIRE(!name.empty() && impl_->gauges.count({name, labels}) == 0);
  auto& slot = impl_->counters[{name, labels}];
  if (!slot) {
    auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry);
    slot = std::make_unique<CounterImpl>(family.Add(labels));
  }
  return *slot;
}

Gauge& Metrics::GetGauge(const std::string& name, const std::string& help, const Labels& labels) {
  MutexLock lock(impl_->mu);
  TD_REQUIRE(!name.empty() && impl_->counters.count({name, labels}) == 0);
  auto& slot = impl_->gauges[{name, labels}];
  if (!slot) {
    auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
    slot = std::make_unique<GaugeImpl>(family.Add(labels));
  }
  return *slot;
}

Histogram& Metrics::GetHistogram(const std::string& name, const std::string& help,
                                 const std::vector<double>& bounds, const Labels& labels) {
  MutexLock lock(impl_->mu);
  TD_REQUIRE(!name.empty() && std::is_sorted(bounds.begin(), bounds.end()));
  auto& slot = impl_->histograms[{name, labels}];
  if (!slot) {
    auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(impl_->registry);
    slot = std::make_unique<HistogramImpl>(family.Add(labels, bounds));
  }
  return *slot;
}

std::string Metrics::Text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, impl_->registry.Collect());
  return out.str();
}

}  // namespace tandem
