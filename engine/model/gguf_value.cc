#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/gguf_parser.h"

namespace kvasir {
namespace {

// Far beyond any vocabulary, template or embedded tokenizer; without them the
// data of a large file could be read as one text or array and copied.
constexpr uint64_t kMaxTextBytes = uint64_t{1} << 26;
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 24;
// What an array takes before its elements are seen to be there.
constexpr uint64_t kFirstReserved = 4096;

// Numbers of the metadata types in the file.
enum ValueType : uint64_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
  kValueTypeCount,
};

// Bytes of a value; of a string, those of its length.
constexpr int kValueBytes[kValueTypeCount] = {1, 1, 2, 2, 4, 4, 4,
                                              1, 8, 0, 8, 8, 8};

bool IsSigned(uint64_t type) {
  return type == kInt8 || type == kInt16 || type == kInt32 || type == kInt64;
}

// Extends the sign of the low `bytes` bytes.
int64_t SignExtend(uint64_t raw, int bytes) {
  const int shift = 64 - 8 * bytes;
  return static_cast<int64_t>(raw << shift) >> shift;
}

absl::StatusOr<int64_t> ReadInteger(ByteReader& reader, uint64_t type,
                                    const std::string& field) {
  const int bytes = kValueBytes[type];
  ASSIGN_OR_RETURN(const uint64_t raw, reader.Unsigned(bytes, field));
  if (IsSigned(type)) return SignExtend(raw, bytes);
  if (raw > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": wanted integers below 2^63, found ", raw));
  }
  return static_cast<int64_t>(raw);
}

absl::StatusOr<double> ReadReal(ByteReader& reader, uint64_t type,
                                const std::string& field) {
  ASSIGN_OR_RETURN(const uint64_t raw,
                   reader.Unsigned(kValueBytes[type], field));
  if (type == kFloat64) return std::bit_cast<double>(raw);
  return std::bit_cast<float>(static_cast<uint32_t>(raw));
}

absl::StatusOr<bool> ReadBool(ByteReader& reader, const std::string& field) {
  ASSIGN_OR_RETURN(const uint64_t raw, reader.Unsigned(1, field));
  if (raw > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": wanted a bool of 0 or 1, found ", raw));
  }
  return raw == 1;
}

absl::Status UnknownType(const std::string& field, uint64_t type) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": wanted a value type of 0 to ", kValueTypeCount - 1,
                   ", found ", type));
}

// Reads `count` elements by `read`, which returns StatusOr<Element>.
template <typename Element, typename Read>
absl::StatusOr<GgufValue> ReadElements(uint64_t count, Read read) {
  std::vector<Element> elements;
  elements.reserve(std::min(count, kFirstReserved));
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Element element, read());
    elements.push_back(std::move(element));
  }
  return GgufValue(std::move(elements));
}

absl::StatusOr<GgufValue> ReadArray(ByteReader& reader,
                                    const std::string& field) {
  ASSIGN_OR_RETURN(const uint64_t type,
                   reader.Unsigned(4, absl::StrCat(field, " (element type)")));
  if (type == kArray) {
    return absl::UnimplementedError(
        absl::StrCat(field, ": arrays of arrays are not supported"));
  }
  if (type >= kValueTypeCount) return UnknownType(field, type);
  ASSIGN_OR_RETURN(const uint64_t count,
                   reader.Unsigned(8, absl::StrCat(field, " (length)")));
  if (count > kMaxArrayElements) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": wanted an array of at most ", kMaxArrayElements,
                     " elements, found ", count));
  }
  if (count > reader.remaining() / kValueBytes[type]) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": an array of ", count, " elements wanted, ",
                     reader.remaining(), " bytes are left"));
  }
  switch (type) {
    case kString:
      return ReadElements<std::string>(
          count, [&] { return reader.Text(kMaxTextBytes, field); });
    case kBool:
      return ReadElements<bool>(count, [&] { return ReadBool(reader, field); });
    case kFloat32:
    case kFloat64:
      return ReadElements<double>(
          count, [&] { return ReadReal(reader, type, field); });
    default:
      return ReadElements<int64_t>(
          count, [&] { return ReadInteger(reader, type, field); });
  }
}

}  // namespace

absl::StatusOr<GgufValue> ParseGgufValue(ByteReader& reader, uint64_t type,
                                         const std::string& field) {
  switch (type) {
    case kArray:
      return ReadArray(reader, field);
    case kString: {
      ASSIGN_OR_RETURN(std::string text, reader.Text(kMaxTextBytes, field));
      return GgufValue(std::move(text));
    }
    case kBool: {
      ASSIGN_OR_RETURN(const bool value, ReadBool(reader, field));
      return GgufValue(value);
    }
    case kFloat32:
    case kFloat64: {
      ASSIGN_OR_RETURN(const double value, ReadReal(reader, type, field));
      return GgufValue(value);
    }
    case kUint64: {
      ASSIGN_OR_RETURN(const uint64_t raw, reader.Unsigned(8, field));
      const auto limit =
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
      return raw > limit ? GgufValue(raw)
                         : GgufValue(static_cast<int64_t>(raw));
    }
    default: {
      if (type >= kValueTypeCount) return UnknownType(field, type);
      ASSIGN_OR_RETURN(const int64_t value, ReadInteger(reader, type, field));
      return GgufValue(value);
    }
  }
}

}  // namespace kvasir
