#include "tests/support/malformed_gguf.h"

#include <cstdint>
#include <vector>

namespace kvasir {
namespace {

constexpr uint64_t kHuge = uint64_t{1} << 62;

const MalformedGguf kCases[] = {
    {"ProductWraps",
     [](auto& w) {
       w.tensors[0].dims = {uint64_t{1} << 33, 1u << 31};
     },
     "a.weight"},
    {"SizeWrapsAfterPadding",
     [](auto& w) { w.tensors[0].dims = {(uint64_t{1} << 61) - 1}; },
     "a.weight"},
    {"FiveDims",
     [](auto& w) {
       w.tensors[0].dims = {32, 2, 1, 1, 1};
     },
     "a.weight"},
    {"FourBillionDims",
     [](auto& w) { w.tensors[0].claimed_dim_count = 0xffffffffu; }, "a.weight"},
    {"NoDims", [](auto& w) { w.tensors[0].dims = {}; }, "a.weight"},
    {"DimensionOfZero",
     [](auto& w) {
       w.tensors[0].dims = {32, 0};
     },
     "dimension 1"},
    {"TypeId9999", [](auto& w) { w.tensors[0].type = 9999; }, "9999"},
    {"TypeIdMinusOne", [](auto& w) { w.tensors[0].type = ~0u; }, "a.weight"},
    {"TypeWithoutKernels", [](auto& w) { w.tensors[0].type = 10; }, "a.weight"},
    {"RowsNoMultipleOfTheBlock",
     [](auto& w) {
       w.tensors[0].type = GgufTensorTypeId(DType::kQ8_0);
       w.tensors[0].dims = {33, 2};
     },
     "a.weight"},
    {"HugeKeyLength",
     [](auto& w) { w.entries[1].claimed_key_length = uint64_t{1} << 48; },
     "metadata key 1"},
    {"EmptyKey", [](auto& w) { w.entries[1].key = ""; }, "metadata key 1"},
    {"UnknownValueType", [](auto& w) { w.entries[1].type = 77; },
     "llama.block_count"},
    {"ArrayOfUnknownType",
     [](auto& w) {
       w.SetRaw("array", GgufType::kArray,
                GgufBytes(uint64_t{99}, 4) + GgufBytes(uint64_t{1} << 60, 8));
     },
     "array"},
    {"ArrayLongerThanTheFile",
     [](auto& w) {
       w.SetRaw("array", GgufType::kArray,
                GgufBytes(uint64_t{4}, 4) + GgufBytes(uint64_t{1} << 60, 8));
     },
     "array"},
    {"NestedArray",
     [](auto& w) {
       w.SetRaw("array", GgufType::kArray,
                GgufBytes(uint64_t{9}, 4) + GgufBytes(uint64_t{1}, 8));
     },
     "array"},
    {"StringsLongerThanTheFile",
     [](auto& w) {
       w.SetRaw("array", GgufType::kArray,
                GgufBytes(uint64_t{8}, 4) + GgufBytes(uint64_t{3}, 8));
     },
     "array"},
    {"HugeText",
     [](auto& w) { w.SetRaw("text", GgufType::kString, GgufBytes(kHuge, 8)); },
     "text"},
    {"BoolOfTwo",
     [](auto& w) {
       w.SetRaw("flag", GgufType::kBool, GgufBytes(uint64_t{2}, 1));
     },
     "flag"},
    {"AlignmentZero", [](auto& w) { w.SetInt("general.alignment", 0); },
     "general.alignment"},
    {"AlignmentThree", [](auto& w) { w.SetInt("general.alignment", 3); },
     "general.alignment"},
    {"AlignmentOfTypeString",
     [](auto& w) { w.SetString("general.alignment", "32"); },
     "general.alignment"},
    {"OffsetPastTheEnd", [](auto& w) { w.tensors[1].claimed_offset = 1 << 20; },
     "b.weight"},
    {"OffsetBeyondAnyFile",
     [](auto& w) { w.tensors[1].claimed_offset = ~uint64_t{31}; }, "b.weight"},
    {"OffsetUnaligned", [](auto& w) { w.tensors[1].claimed_offset = 8; },
     "b.weight"},
    {"OffsetOverlapping", [](auto& w) { w.tensors[1].claimed_offset = 32; },
     "overlaps"},
    {"TensorCount", [](auto& w) { w.claimed_tensor_count = kHuge; },
     "tensor count"},
    {"EntryCount", [](auto& w) { w.claimed_entry_count = kHuge; },
     "metadata count"},
    {"DuplicateKey", [](auto& w) { w.entries.push_back(w.entries[0]); },
     "general.architecture"},
    {"DuplicateTensor", [](auto& w) { w.tensors[1].name = w.tensors[0].name; },
     "a.weight"},
    {"EmptyTensorName", [](auto& w) { w.tensors[1].name = ""; }, "tensor 1"},
    {"HugeNameLength",
     [](auto& w) { w.tensors[1].claimed_name_length = kHuge; }, "tensor 1"},
    {"Version0", [](auto& w) { w.version = 0; }, "version"},
    {"Version99", [](auto& w) { w.version = 99; }, "version"},
    {"BigEndianMagic", [](auto& w) { w.magic = "FUGG"; }, "magic"},
};

}  // namespace

GgufWriter MakeSmallGguf() {
  GgufWriter writer;
  writer.SetString("general.architecture", "llama");
  writer.SetInt("llama.block_count", 2);
  const std::vector<float> values(64, 0.5f);
  writer.AddTensor("a.weight", DType::kF32, {32, 2}, values);
  writer.AddTensor("b.weight", DType::kF32, {64}, values);
  return writer;
}

void PrintTo(const MalformedGguf& malformed, std::ostream* out) {
  *out << malformed.name;
}

absl::Span<const MalformedGguf> MalformedGgufCases() { return kCases; }

}  // namespace kvasir
