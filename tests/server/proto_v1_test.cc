// The promise of package kvasir.v1: inside v1 only additions are made.

#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

#include "kvasir/v1/cache_admin.pb.h"
#include "kvasir/v1/common.pb.h"
#include "kvasir/v1/inference.pb.h"

namespace kvasir {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

using Lines = std::set<std::string>;

// Everything that the bytes of a message depend on, and the name, on which
// JSON and generated code do.
std::string LineOf(const FieldDescriptor& field) {
  std::string type = field.type_name();
  if (field.message_type() != nullptr) type = field.message_type()->full_name();
  if (field.enum_type() != nullptr) type = field.enum_type()->full_name();
  const char* label = field.is_repeated()            ? "repeated "
                      : field.has_optional_keyword() ? "optional "
                                                     : "";
  std::string line = absl::StrCat("field ", field.full_name(), " = ",
                                  field.number(), " ", label, type);
  if (const auto* oneof = field.real_containing_oneof(); oneof != nullptr) {
    absl::StrAppend(&line, " in ", oneof->name());
  }
  return line;
}

void AddEnum(const EnumDescriptor& type, Lines& out) {
  for (int i = 0; i < type.value_count(); ++i) {
    out.insert(absl::StrCat("value ", type.full_name(), ".",
                            type.value(i)->name(), " = ",
                            type.value(i)->number()));
  }
}

void AddMessage(const Descriptor& type, Lines& out) {
  out.insert(absl::StrCat("message ", type.full_name()));
  for (int i = 0; i < type.field_count(); ++i) {
    out.insert(LineOf(*type.field(i)));
  }
  for (int i = 0; i < type.nested_type_count(); ++i) {
    AddMessage(*type.nested_type(i), out);
  }
  for (int i = 0; i < type.enum_type_count(); ++i) {
    AddEnum(*type.enum_type(i), out);
  }
}

void AddFile(const FileDescriptor& file, Lines& out) {
  for (int i = 0; i < file.message_type_count(); ++i) {
    AddMessage(*file.message_type(i), out);
  }
  for (int i = 0; i < file.enum_type_count(); ++i) {
    AddEnum(*file.enum_type(i), out);
  }
  for (int i = 0; i < file.service_count(); ++i) {
    const ServiceDescriptor& service = *file.service(i);
    for (int j = 0; j < service.method_count(); ++j) {
      const MethodDescriptor& method = *service.method(j);
      out.insert(absl::StrCat("method ", method.full_name(), "(",
                              method.client_streaming() ? "stream " : "",
                              method.input_type()->full_name(), ") ",
                              method.server_streaming() ? "stream " : "",
                              method.output_type()->full_name()));
    }
  }
}

Lines Present() {
  Lines lines;
  AddFile(*v1::TokenIds::descriptor()->file(), lines);
  AddFile(*v1::GenerateRequest::descriptor()->file(), lines);
  AddFile(*v1::FlushCacheRequest::descriptor()->file(), lines);
  return lines;
}

// A field that is renamed, renumbered or retyped is gone from here, and a
// client that was built yesterday reads something else today.
TEST(ProtoV1Test, WhatWasPromisedIsThere) {
  const std::string path = KVASIR_SOURCE_DIR "/tests/server/proto_v1.golden";
  std::ifstream file(path);
  Lines promised;
  for (std::string line; std::getline(file, line);) promised.insert(line);
  ASSERT_GT(promised.size(), 300u) << path;
  const Lines present = Present();
  for (const std::string& line : promised) {
    EXPECT_TRUE(present.contains(line)) << "gone, and v1 only grows: " << line;
  }
  std::string added;
  for (const std::string& line : present) {
    if (!promised.contains(line)) absl::StrAppend(&added, line, "\n");
  }
  EXPECT_EQ(added, "") << "new, and promised from now on: add it to " << path;
}

}  // namespace
}  // namespace kvasir
