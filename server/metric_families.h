#ifndef KVASIR_SERVER_METRIC_FAMILIES_H_
#define KVASIR_SERVER_METRIC_FAMILIES_H_

#include <string>
#include <utility>
#include <vector>

#include "prometheus/metric_family.h"

#include "engine/engine_stats.h"

namespace kvasir {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Gathers the samples of one scrape. A family is opened, then filled; labels of
// `common` are put in front of each sample's own.
class MetricFamilies {
 public:
  void SetCommonLabels(MetricLabels common) { common_ = std::move(common); }

  void OpenCounter(const char* name, const char* help);
  void OpenGauge(const char* name, const char* help);
  void OpenHistogram(const char* name, const char* help);

  // Into the family opened last, which has the right kind.
  void Add(const MetricLabels& labels, double value);
  void Add(const MetricLabels& labels, const Histogram& histogram);

  // Families of one sample.
  void Counter(const char* name, const char* help, double value);
  void Gauge(const char* name, const char* help, double value);
  void Histograms(const char* name, const char* help,
                  const Histogram& histogram);

  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  void Open(const char* name, const char* help, prometheus::MetricType type);
  prometheus::ClientMetric& AddSample(const MetricLabels& labels);

  MetricLabels common_;
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_METRIC_FAMILIES_H_
