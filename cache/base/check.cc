#include "cache/base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace kvasir::base {

CheckFailure::CheckFailure(const char* file, int line, const char* expression) {
  stream_ << file << ':' << line << ": check failed: " << expression << ' ';
}

CheckFailure::~CheckFailure() {
  const std::string message = stream_.str();
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

}  // namespace kvasir::base
