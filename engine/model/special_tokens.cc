#include "engine/model/special_tokens.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

uint64_t EdgeKey(uint64_t parent, char byte) {
  return parent << 8 | static_cast<uint8_t>(byte);
}

}  // namespace

SpecialTokens::SpecialTokens() : nodes_(1) {}

void SpecialTokens::Add(std::string_view text, TokenId id, bool is_control) {
  KV_CHECK(!text.empty()) << "token " << id;
  starts_any_[static_cast<uint8_t>(text[0])] = true;
  if (!is_control) starts_ordinary_[static_cast<uint8_t>(text[0])] = true;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto [edge, is_new] = children_.try_emplace(
        EdgeKey(node, byte), static_cast<uint32_t>(nodes_.size()));
    if (is_new) nodes_.emplace_back();
    node = edge->second;
  }
  (is_control ? nodes_[node].control : nodes_[node].ordinary) = id;
}

SpecialTokens::Found SpecialTokens::Find(std::string_view text, size_t from,
                                         bool allow_control) const {
  const auto& starts = allow_control ? starts_any_ : starts_ordinary_;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts[static_cast<uint8_t>(text[begin])]) continue;
    Found longest = {begin, 0, -1};
    uint32_t node = 0;
    for (size_t end = begin; end < text.size();) {
      const auto edge = children_.find(EdgeKey(node, text[end]));
      if (edge == children_.end()) break;
      node = edge->second;
      ++end;
      TokenId id = nodes_[node].ordinary;
      if (id < 0 && allow_control) id = nodes_[node].control;
      if (id >= 0) longest = {begin, end - begin, id};
    }
    if (longest.bytes > 0) return longest;
  }
  return {text.size(), 0, -1};
}

}  // namespace kvasir
