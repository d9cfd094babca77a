#include "cache/base/histogram.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cache/base/check.h"

namespace kvasir {

Histogram::Histogram(std::vector<double> upper_bounds)
    : bounds(std::move(upper_bounds)), counts(bounds.size() + 1, 0) {
  KV_CHECK(std::is_sorted(bounds.begin(), bounds.end()));
}

void Histogram::Add(double value) {
  // A bound belongs to its bucket, as Prometheus's label `le` says.
  const auto it = std::lower_bound(bounds.begin(), bounds.end(), value);
  ++counts[static_cast<size_t>(it - bounds.begin())];
  sum += value;
}

}  // namespace kvasir
