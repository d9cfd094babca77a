#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

#include "tests/fuzz/replay.h"
#include "tests/fuzz/template_input.h"

namespace kvasir {
namespace {

// Templates that reach most of the language, and some that want too much. Each
// start of one is a template that somebody could have cut short.
TEST(TemplateReplay, KeptInputsBreakNoPromise) {
  int rendered = 0;
  const auto run = [&](const std::vector<uint8_t>& bytes) {
    rendered += RunTemplateInput(bytes) ? 1 : 0;
    for (size_t size = 0; size < bytes.size(); size += 7) {
      const std::vector<uint8_t> start(
          bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
      RunTemplateInput(start);
    }
  };
  EXPECT_GE(ReplayCorpus("template", run), 15);
  EXPECT_GE(rendered, 9);
}

}  // namespace
}  // namespace kvasir
