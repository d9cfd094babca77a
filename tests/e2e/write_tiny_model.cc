// Writes the made-up model TINY, for clients that are no C++.
//
//   tiny_model FILE
#include <cstdio>

#include "tests/support/tiny_model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tiny_model FILE\n");
    return 2;
  }
  const absl::Status written = kvasir::WriteTinyModel({}, argv[1]);
  if (!written.ok()) std::fprintf(stderr, "%s\n", written.ToString().c_str());
  return written.ok() ? 0 : 1;
}
