#include "engine/template/json_reader.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "engine/template/limits.h"

namespace kvasir::jinja {
namespace {

// Builds values while the parser goes through the text. Its methods are called
// by the parser; false ends the parse.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  absl::StatusOr<Value> Take() {
    if (!fault_.empty()) return absl::InvalidArgumentError(fault_);
    return std::move(root_);
  }

  bool null() override { return Add(Value::None()); }
  bool boolean(bool value) override { return Add(Value::Bool(value)); }
  bool number_integer(int64_t value) override { return Add(Value::Int(value)); }
  bool number_unsigned(uint64_t value) override {
    if (value <= INT64_MAX) return Add(Value::Int(static_cast<int64_t>(value)));
    return Fail(absl::StrCat("wanted integers of 64 bits; found ", value));
  }
  bool number_float(double value, const std::string& text) override {
    // Whole numbers that are too large arrive here as well.
    if (text.find_first_of(".eE") == std::string::npos) {
      return Fail(absl::StrCat("wanted integers of 64 bits; found ",
                               text.substr(0, 40)));
    }
    return Add(Value::Float(value));
  }
  bool string(std::string& value) override {
    return Add(Value::String(value, /*trusted=*/false));
  }
  bool binary(nlohmann::json::binary_t&) override { return Fail("binary"); }

  bool start_object(size_t) override { return Open(/*is_object=*/true); }
  bool key(std::string& value) override {
    open_.back().key = value;
    return true;
  }
  bool end_object() override {
    Value value = Value::FromDict(std::move(open_.back().dict));
    open_.pop_back();
    return Add(std::move(value));
  }
  bool start_array(size_t) override { return Open(/*is_object=*/false); }
  bool end_array() override {
    Value value = Value::List(std::move(open_.back().items));
    open_.pop_back();
    return Add(std::move(value));
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("wanted JSON; found a fault at byte ", position));
  }

 private:
  struct Level {
    bool is_object;
    Dict dict;
    std::string key;
    ValueList items;
  };

  bool Fail(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }

  bool Open(bool is_object) {
    if (open_.size() == static_cast<size_t>(kMaxJsonDepth)) {
      return Fail(absl::StrCat("wanted JSON nested at most ", kMaxJsonDepth,
                               " deep; found ", kMaxJsonDepth + 1, " or more"));
    }
    open_.push_back({is_object, {}, {}, {}});
    return true;
  }

  bool Add(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.Set(open_.back().key, std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Level> open_;
  Value root_;
  std::string fault_;
};

}  // namespace

absl::StatusOr<Value> ReadJson(std::string_view text) {
  // The parser would skip it; no JSON text starts with one (RFC 8259, 8.1).
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    return absl::InvalidArgumentError(
        "wanted JSON; found a byte order mark at its start");
  }
  Builder builder;
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.Take();
}

}  // namespace kvasir::jinja
