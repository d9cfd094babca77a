#include "gtest/gtest.h"

#include "tests/engine/template/golden.h"

namespace kvasir::jinja {
namespace {

// Every test on every kind of value, those for which jinja2 has no answer
// as well: nullptr stands for an error that jinja2 3.1.6 raised with kContext.
constexpr GoldenCase kCases[] = {
    {"{{ n is divisibleby(2) }}", "False"},
    {"{{ f is divisibleby(2) }}", "False"},
    {"{{ neg is divisibleby(2) }}", "False"},
    {"{{ z is divisibleby(2) }}", "True"},
    {"{{ t is divisibleby(2) }}", "False"},
    {"{{ nil is divisibleby(2) }}", nullptr},
    {"{{ e is divisibleby(2) }}", nullptr},
    {"{{ s is divisibleby(2) }}", nullptr},
    {"{{ u is divisibleby(2) }}", nullptr},
    {"{{ w is divisibleby(2) }}", nullptr},
    {"{{ ml is divisibleby(2) }}", nullptr},
    {"{{ html is divisibleby(2) }}", nullptr},
    {"{{ l is divisibleby(2) }}", nullptr},
    {"{{ names is divisibleby(2) }}", nullptr},
    {"{{ d is divisibleby(2) }}", nullptr},
    {"{{ nest is divisibleby(2) }}", nullptr},
    {"{{ users is divisibleby(2) }}", nullptr},
    {"{{ [] is divisibleby(2) }}", nullptr},
    {"{{ {} is divisibleby(2) }}", nullptr},
    {"{{ (1,2) is divisibleby(2) }}", nullptr},
    {"{{ missing is divisibleby(2) }}", nullptr},
    {"{{ range(3) is divisibleby(2) }}", nullptr},
};

TEST(GoldenTestMatrix2, EqualsTheReference) { CheckGolden(kCases); }

}  // namespace
}  // namespace kvasir::jinja
