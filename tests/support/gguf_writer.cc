#include "tests/support/gguf_writer.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

#include "cache/base/check.h"
#include "tests/support/quantize.h"

namespace kvasir {
namespace {

uint64_t RoundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

std::string ArrayPayload(GgufType type, size_t count) {
  return GgufBytes(static_cast<uint32_t>(type), 4) + GgufBytes(count, 8);
}

}  // namespace

uint32_t GgufTensorTypeId(DType type) {
  switch (type) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ4_1:
      return 3;
    case DType::kQ5_0:
      return 6;
    case DType::kQ5_1:
      return 7;
    case DType::kQ8_0:
      return 8;
    case DType::kQ4_K:
      return 12;
    case DType::kQ5_K:
      return 13;
    case DType::kQ6_K:
      return 14;
    case DType::kBF16:
      return 30;
  }
  KV_CHECK(false) << "tensor type " << static_cast<int>(type);
  return 0;
}

std::string GgufBytes(uint64_t value, int bytes) {
  std::string out(bytes, '\0');
  for (int i = 0; i < bytes; ++i) {
    out[i] = static_cast<char>(value >> (8 * i) & 0xff);
  }
  return out;
}

std::string GgufBytes(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return GgufBytes(bits, 4);
}

std::string GgufBytes(std::string_view text) {
  return GgufBytes(text.size(), 8) + std::string(text);
}

void GgufWriter::SetRaw(std::string_view key, GgufType type,
                        std::string payload) {
  Entry entry{std::string(key), static_cast<uint32_t>(type), std::move(payload),
              std::nullopt};
  for (Entry& existing : entries) {
    if (existing.key == key) {
      existing = std::move(entry);
      return;
    }
  }
  entries.push_back(std::move(entry));
}

void GgufWriter::SetInt(std::string_view key, uint32_t value) {
  SetRaw(key, GgufType::kUint32, GgufBytes(value, 4));
}

void GgufWriter::SetFloat(std::string_view key, float value) {
  SetRaw(key, GgufType::kFloat32, GgufBytes(value));
}

void GgufWriter::SetBool(std::string_view key, bool value) {
  SetRaw(key, GgufType::kBool, GgufBytes(value ? 1 : 0, 1));
}

void GgufWriter::SetString(std::string_view key, std::string_view value) {
  SetRaw(key, GgufType::kString, GgufBytes(value));
}

void GgufWriter::SetStrings(std::string_view key,
                            absl::Span<const std::string> values) {
  std::string payload = ArrayPayload(GgufType::kString, values.size());
  for (const std::string& value : values) payload += GgufBytes(value);
  SetRaw(key, GgufType::kArray, std::move(payload));
}

void GgufWriter::SetInts(std::string_view key,
                         absl::Span<const int32_t> values) {
  std::string payload = ArrayPayload(GgufType::kInt32, values.size());
  for (const int32_t value : values) {
    payload += GgufBytes(static_cast<uint32_t>(value), 4);
  }
  SetRaw(key, GgufType::kArray, std::move(payload));
}

void GgufWriter::Remove(std::string_view key) {
  entries.erase(
      std::remove_if(entries.begin(), entries.end(),
                     [&](const Entry& entry) { return entry.key == key; }),
      entries.end());
}

void GgufWriter::AddTensor(std::string_view name, DType type,
                           absl::Span<const int64_t> dims,
                           absl::Span<const float> values) {
  tensors.push_back({.name = std::string(name),
                     .type = GgufTensorTypeId(type),
                     .dims = {dims.begin(), dims.end()},
                     .data = Quantize(type, values),
                     .claimed_dim_count = {},
                     .claimed_offset = {},
                     .claimed_name_length = {}});
}

GgufWriter::Tensor& GgufWriter::FindTensor(std::string_view name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(),
                   [&](const Tensor& tensor) { return tensor.name == name; });
  KV_CHECK(found != tensors.end()) << "no tensor " << name;
  return *found;
}

void GgufWriter::RemoveTensor(std::string_view name) {
  tensors.erase(tensors.begin() + (&FindTensor(name) - tensors.data()));
}

std::string GgufWriter::Build() const {
  std::string out =
      magic + GgufBytes(version, 4) +
      GgufBytes(claimed_tensor_count.value_or(tensors.size()), 8) +
      GgufBytes(claimed_entry_count.value_or(entries.size()), 8);
  for (const Entry& entry : entries) {
    out += GgufBytes(entry.claimed_key_length.value_or(entry.key.size()), 8);
    out += entry.key + GgufBytes(entry.type, 4) + entry.payload;
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    out +=
        GgufBytes(tensor.claimed_name_length.value_or(tensor.name.size()), 8);
    out += tensor.name;
    out += GgufBytes(tensor.claimed_dim_count.value_or(tensor.dims.size()), 4);
    for (const uint64_t dim : tensor.dims) out += GgufBytes(dim, 8);
    out += GgufBytes(tensor.type, 4);
    out += GgufBytes(tensor.claimed_offset.value_or(offset), 8);
    offset = RoundUp(offset + tensor.data.size(), alignment);
  }
  for (const Tensor& tensor : tensors) {
    out.resize(RoundUp(out.size(), alignment), '\0');
    out += tensor.data;
  }
  return out;
}

absl::Status GgufWriter::Write(const std::string& path) const {
  return WriteFileBytes(path, Build());
}

absl::Status WriteFileBytes(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return absl::UnavailableError("cannot write " + path);
  return absl::OkStatus();
}

}  // namespace kvasir
