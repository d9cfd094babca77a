#include "cache/key_directory.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

uint32_t FirstBytes(const uint8_t* key) {
  uint32_t bytes = 0;
  for (size_t i = 0; i < sizeof(bytes); ++i) bytes = bytes << 8 | key[i];
  return bytes;
}

uint32_t FirstBytes(const BlockKey& key) { return FirstBytes(key.data()); }

bool StartsWith(const BlockKey& key, absl::string_view digits) {
  return absl::StartsWith(
      absl::BytesToHexString(absl::string_view(
          reinterpret_cast<const char*>(key.data()), key.size())),
      digits);
}

}  // namespace

void KeyDirectory::Reserve(int64_t blocks) {
  keys_.reserve(static_cast<size_t>(blocks));
  next_.reserve(static_cast<size_t>(blocks));
  heads_.reserve(static_cast<size_t>(blocks));
}

void KeyDirectory::Insert(BlockId block, const BlockKey& key) {
  const size_t index = static_cast<size_t>(block.value());
  if (index >= keys_.size()) {
    keys_.resize(index + 1);
    next_.resize(index + 1);
  }
  keys_[index] = key;
  BlockId& head = heads_[FirstBytes(key)];
  next_[index] = head;
  head = block;
}

void KeyDirectory::Remove(BlockId block) {
  const auto head = heads_.find(FirstBytes(Of(block)));
  KV_CHECK(head != heads_.end()) << "block " << block << " has no key";
  BlockId* link = &head->second;
  while (*link != block) {
    KV_CHECK(link->valid()) << "block " << block << " has no key";
    link = &next_[link->value()];
  }
  *link = next_[block.value()];
  if (!head->second.valid()) heads_.erase(head);
}

void KeyDirectory::Relocate(BlockId from, BlockId to) {
  const BlockKey key = Of(from);
  Remove(from);
  Insert(to, key);
}

void KeyDirectory::Clear() {
  keys_.clear();
  next_.clear();
  heads_.clear();
}

BlockId KeyDirectory::First(uint32_t bytes) const {
  const auto head = heads_.find(bytes);
  return head == heads_.end() ? BlockId() : head->second;
}

BlockId KeyDirectory::Find(const BlockKey& key) const {
  BlockId block = First(FirstBytes(key));
  while (block.valid() && Of(block) != key) block = next_[block.value()];
  return block;
}

std::vector<BlockId> KeyDirectory::StartingWith(
    absl::string_view digits) const {
  KV_CHECK(digits.size() >= kMinDigits) << digits;
  const std::string first =
      absl::HexStringToBytes(digits.substr(0, kMinDigits));
  std::vector<BlockId> found;
  for (BlockId block =
           First(FirstBytes(reinterpret_cast<const uint8_t*>(first.data())));
       block.valid(); block = next_[block.value()]) {
    if (StartsWith(Of(block), digits)) found.push_back(block);
  }
  return found;
}

std::vector<std::string> KeyDirectory::Violations(
    const std::vector<BlockId>& blocks) const {
  std::vector<std::string> found;
  for (const BlockId block : blocks) {
    if (Find(Of(block)) != block) {
      found.push_back(absl::StrCat("the key of indexed block ", block.value(),
                                   " does not lead to it"));
    }
  }
  size_t count = 0;
  for (auto [bytes, block] : heads_) {
    for (; block.valid(); block = next_[block.value()]) ++count;
  }
  if (count != blocks.size()) {
    found.push_back(absl::StrCat("the directory has ", count, " keys for ",
                                 blocks.size(), " blocks"));
  }
  return found;
}

}  // namespace kvasir
