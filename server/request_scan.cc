#include "server/request_scan.h"

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;

// The wire types of protobuf's encoding; 3 and 4 are groups, which proto3 has
// not.
enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kFixed32 = 5,
};

WireType WireTypeOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return kFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return kFixed32;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE:
      return kLength;
    default:
      return kVarint;
  }
}

bool Takes(const FieldDescriptor& field, uint32_t wire_type) {
  return wire_type == WireTypeOf(field) ||
         (wire_type == kLength && field.is_packable());
}

// Where in the request the scan is; lives on the stack.
struct Place {
  const Place* outer = nullptr;
  const FieldDescriptor* field = nullptr;
  int index = -1;  // in a list

  std::string Path() const {
    const bool inside = outer != nullptr && outer->field != nullptr;
    if (field == nullptr) return "request";
    return absl::StrCat(inside ? outer->Path() + "." : "", field->name(),
                        index < 0 ? "" : absl::StrCat("[", index, "]"));
  }
};

class Scanner {
 public:
  Scanner(const Descriptor& type,
          google::protobuf::io::ZeroCopyInputStream& bytes)
      : type_(type), in_(&bytes) {}

  absl::Status Run() { return Message(type_, {}); }

 private:
  absl::Status Message(const Descriptor& type, const Place& place);
  absl::Status Part(const FieldDescriptor& field, const Place& place);
  absl::Status Inner(const FieldDescriptor& field, int length,
                     const Place& place);
  bool SkipNumber(uint32_t wire_type);

  const Descriptor& type_;
  CodedInputStream in_;
  int parts_ = 0;
  std::string text_;  // the string in hand
};

absl::Status Scanner::Message(const Descriptor& type, const Place& place) {
  absl::flat_hash_map<int, int> list_sizes;  // by field number
  while (const uint32_t tag = in_.ReadTag()) {
    const int number = static_cast<int>(tag >> 3);
    const uint32_t wire_type = tag & 7;
    const FieldDescriptor* field = type.FindFieldByNumber(number);
    if (field == nullptr || !Takes(*field, wire_type)) {
      return absl::InvalidArgumentError(
          absl::StrCat(place.Path(), ": wanted fields of ", type.full_name(),
                       " with their types, found field number ", number,
                       " with an unknown number or another type"));
    }
    if (wire_type != kLength) {
      if (!SkipNumber(wire_type)) return NotAMessage(type_);
      continue;
    }
    const int index = field->is_repeated() ? list_sizes[number]++ : -1;
    RETURN_IF_ERROR(Part(*field, {&place, field, index}));
  }
  return in_.ConsumedEntireMessage() ? absl::OkStatus() : NotAMessage(type_);
}

absl::Status Scanner::Part(const FieldDescriptor& field, const Place& place) {
  int length = 0;
  if (!in_.ReadVarintSizeAsInt(&length)) return NotAMessage(type_);
  const bool message = field.type() == FieldDescriptor::TYPE_MESSAGE;
  if (!message && field.type() != FieldDescriptor::TYPE_STRING) {
    return in_.Skip(length) ? absl::OkStatus() : NotAMessage(type_);
  }
  if (++parts_ > kMaxRequestParts) {
    return absl::InvalidArgumentError(absl::StrCat(
        place.Path(), ": wanted at most ", kMaxRequestParts,
        " messages and strings in a ", type_.full_name(), ", found one more"));
  }
  if (message) return Inner(field, length, place);
  if (!in_.ReadString(&text_, length)) return NotAMessage(type_);
  const size_t good = WellFormedBytes(text_);
  if (good == text_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(place.Path(), ": wanted UTF-8, as in every string of a ",
                   type_.full_name(), ", found byte ",
                   static_cast<uint8_t>(text_[good]), " at offset ", good));
}

absl::Status Scanner::Inner(const FieldDescriptor& field, int length,
                            const Place& place) {
  const auto [limit, depth_left] =
      in_.IncrementRecursionDepthAndPushLimit(length);
  if (depth_left < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("request: wanted at most ",
                     CodedInputStream::GetDefaultRecursionLimit(),
                     " messages within each other, found one more in a ",
                     type_.full_name()));
  }
  RETURN_IF_ERROR(Message(*field.message_type(), place));
  // At the end of all bytes the stream has nothing more to say; the message
  // may.
  const bool whole = in_.BytesUntilLimit() == 0;
  return in_.DecrementRecursionDepthAndPopLimit(limit) && whole
             ? absl::OkStatus()
             : NotAMessage(type_);
}

bool Scanner::SkipNumber(uint32_t wire_type) {
  uint64_t number = 0;
  uint32_t half = 0;
  switch (wire_type) {
    case kVarint:
      return in_.ReadVarint64(&number);
    case kFixed64:
      return in_.ReadLittleEndian64(&number);
    default:
      return in_.ReadLittleEndian32(&half);
  }
}

}  // namespace

absl::Status ScanRequest(const Descriptor& type,
                         google::protobuf::io::ZeroCopyInputStream& bytes) {
  return Scanner(type, bytes).Run();
}

absl::Status NotAMessage(const Descriptor& type) {
  return absl::InvalidArgumentError(
      absl::StrCat("request: wanted a ", type.full_name(),
                   ", found bytes that do not read as one"));
}

}  // namespace kvasir
