#include "server/metric_families.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "cache/base/check.h"

namespace kvasir {

void MetricFamilies::OpenCounter(const char* name, const char* help) {
  Open(name, help, prometheus::MetricType::Counter);
}

void MetricFamilies::OpenGauge(const char* name, const char* help) {
  Open(name, help, prometheus::MetricType::Gauge);
}

void MetricFamilies::OpenHistogram(const char* name, const char* help) {
  Open(name, help, prometheus::MetricType::Histogram);
}

void MetricFamilies::Add(const MetricLabels& labels, double value) {
  prometheus::ClientMetric& sample = AddSample(labels);
  if (families_.back().type == prometheus::MetricType::Counter) {
    sample.counter.value = value;
  } else {
    KV_CHECK(families_.back().type == prometheus::MetricType::Gauge);
    sample.gauge.value = value;
  }
}

void MetricFamilies::Add(const MetricLabels& labels,
                         const Histogram& histogram) {
  KV_CHECK(families_.back().type == prometheus::MetricType::Histogram);
  prometheus::ClientMetric::Histogram& wire = AddSample(labels).histogram;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    wire.sample_count += histogram.counts[i];
    wire.bucket.push_back(
        {wire.sample_count, i < histogram.bounds.size()
                                ? histogram.bounds[i]
                                : std::numeric_limits<double>::infinity()});
  }
  wire.sample_sum = histogram.sum;
}

void MetricFamilies::Counter(const char* name, const char* help, double value) {
  OpenCounter(name, help);
  Add({}, value);
}

void MetricFamilies::Gauge(const char* name, const char* help, double value) {
  OpenGauge(name, help);
  Add({}, value);
}

void MetricFamilies::Histograms(const char* name, const char* help,
                                const Histogram& histogram) {
  OpenHistogram(name, help);
  Add({}, histogram);
}

void MetricFamilies::Open(const char* name, const char* help,
                          prometheus::MetricType type) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  families_.push_back(std::move(family));
}

prometheus::ClientMetric& MetricFamilies::AddSample(
    const MetricLabels& labels) {
  KV_CHECK(!families_.empty());
  prometheus::ClientMetric& sample = families_.back().metric.emplace_back();
  for (const MetricLabels* part : {&std::as_const(common_), &labels}) {
    for (const auto& [name, value] : *part) {
      sample.label.push_back({name, value});
    }
  }
  return sample;
}

}  // namespace kvasir
