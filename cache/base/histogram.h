#ifndef KVASIR_CACHE_BASE_HISTOGRAM_H_
#define KVASIR_CACHE_BASE_HISTOGRAM_H_

#include <cstdint>
#include <vector>

namespace kvasir {

// A histogram with fixed upper bounds, as Prometheus wants it; counts are per
// bucket, not cumulative, the last one for values above every bound. Plain
// value.
struct Histogram {
  std::vector<double> bounds;
  std::vector<uint64_t> counts;  // bounds.size() + 1
  double sum = 0;

  explicit Histogram(std::vector<double> upper_bounds = {});
  void Add(double value);
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_BASE_HISTOGRAM_H_
