// Writes the inputs that a fuzzer of model files starts from: every malformed
// file of LOAD-1, and whole models small enough to be mutated.
//
//   gguf_seeds FOLDER
#include <cstdio>
#include <string>

#include "tests/support/malformed_gguf.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

TinyModelOptions Smallest() {
  return {.layer_count = 1,
          .hidden_dim = 8,
          .feed_forward_dim = 8,
          .head_count = 1,
          .kv_head_count = 1,
          .max_context = 64,
          .token_count = 263};
}

bool Write(const std::string& folder, const std::string& name,
           const GgufWriter& writer) {
  const absl::Status status = writer.Write(folder + "/" + name);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok();
}

bool WriteSeeds(const std::string& folder) {
  bool ok = Write(folder, "small", MakeSmallGguf());
  for (const MalformedGguf& malformed : MalformedGgufCases()) {
    GgufWriter writer = MakeSmallGguf();
    malformed.break_it(writer);
    ok &= Write(folder, malformed.name, writer);
  }
  ok &= Write(folder, "model_f32", MakeTinyModel(Smallest()));
  TinyModelOptions quantized = Smallest();
  quantized.architecture = "qwen2";
  quantized.matrix_type = DType::kQ4_0;
  quantized.hidden_dim = 32;
  quantized.feed_forward_dim = 32;
  GgufWriter yarn = MakeTinyModel(quantized);
  yarn.SetString("qwen2.rope.scaling.type", "yarn");
  yarn.SetFloat("qwen2.rope.scaling.factor", 4);
  yarn.SetInt("qwen2.rope.scaling.original_context_length", 32);
  return Write(folder, "model_q4_0_yarn", yarn) && ok;
}

}  // namespace
}  // namespace kvasir

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gguf_seeds FOLDER\n");
    return 2;
  }
  return kvasir::WriteSeeds(argv[1]) ? 0 : 1;
}
