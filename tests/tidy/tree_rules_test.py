"""Each rule of tree_rules.py finds what it is there to find, and no more."""
import unittest

import tree_rules as rules


def guard(path, body=""):
    name = "KVASIR_" + path.replace("/", "_").replace(".", "_").upper() + "_"
    return f"#ifndef {name}\n#define {name}\n{body}#endif  // {name}\n"


class FloorPlan(unittest.TestCase):
    def complain(self, path, include):
        return rules.floor_plan({path: f"#include {include}\n"})

    def test_arrows_down_are_fine(self):
        for path, include in [
                ("cache/base/check.cc", "<cstdio>"),
                ("cache/kv_cache.cc", '"cache/base/check.h"'),
                ("cache/block_identity.cc", "<openssl/evp.h>"),
                ("engine/backend/ops.h", '"cache/kv_layout.h"'),
                ("engine/model/weights.h", '"engine/backend/backend.h"'),
                ("engine/engine.cc", '"cache/kv_cache.h"'),
                ("server/generate_service.cc", '"engine/engine.h"'),
                ("server/main.cc", "<grpcpp/grpcpp.h>"),
                ("engine/model/gguf_file.cc", "<sys/mman.h>")]:
            self.assertEqual(self.complain(path, include), [], path)

    def test_arrows_up_or_sideways_are_not(self):
        for path, include in [
                ("cache/base/check.cc", '"cache/kv_layout.h"'),
                ("cache/kv_cache.cc", '"engine/request.h"'),
                ("cache/kv_cache.cc", "<grpcpp/grpcpp.h>"),
                ("cache/memory/host_memory.cc", "<cuda.h>"),
                ("engine/backend/ops.h", '"cache/kv_cache.h"'),
                ("engine/backend/ops.cc", '"engine/model/weights.h"'),
                ("engine/model/weights.h", '"engine/scheduler.h"'),
                ("engine/model/weights.h", '"cache/lease.h"'),
                ("engine/engine.cc", "<prometheus/registry.h>"),
                ("engine/engine.cc", '"server/health.h"'),
                ("server/main.cc", '"cache/kv_cache.h"'),
                ("server/main.cc", '"engine/backend/ops.h"'),
                ("client/main.cc", "<string>")]:
            self.assertEqual(len(self.complain(path, include)), 1, path)


class Sizes(unittest.TestCase):
    def test_long_file(self):
        self.assertEqual(rules.file_size({"tests/a_test.cc": "x\n" * 600}), [])
        self.assertEqual(
            len(rules.file_size({"tests/a_test.cc": "x\n" * 601})), 1)

    def test_median(self):
        tree = {f"cache/{i}.cc": "x\n" * 151 for i in range(3)}
        self.assertEqual(len(rules.file_size(tree)), 1)

    def test_wide_line(self):
        self.assertEqual(rules.line_width({"cache/a.cc": "x" * 80}), [])
        self.assertEqual(len(rules.line_width({"cache/a.cc": "x" * 81})), 1)

    def function(self, lines, head="void F(int a,\n       int b) {",
                 indent=""):
        body = "\n".join([indent + line for line in head.split("\n")]
                         + [indent + "  x();"] * lines + [indent + "}"])
        return rules.function_size({"cache/a.cc": body + "\n"})

    def test_long_function(self):
        self.assertEqual(self.function(67), [])
        self.assertEqual(len(self.function(68)), 1)

    def test_long_method_inside_a_class(self):
        self.assertEqual(len(self.function(80, "int F() const {", "  ")), 1)

    def test_classes_and_namespaces_may_be_long(self):
        for head in ("class A final : public B<int()> {", "namespace a {",
                     "struct C {"):
            self.assertEqual(self.function(200, head), [], head)


class Headers(unittest.TestCase):
    def test_guard(self):
        self.assertEqual(
            rules.include_guard({"cache/a.h": guard("cache/a.h")}), [])
        self.assertEqual(
            len(rules.include_guard({"cache/a.h": "#pragma once\n"})), 1)

    def chain(self, n):
        tree = {f"cache/h{i}.h": f'#include "cache/h{i + 1}.h"\n'
                for i in range(n - 1)}
        tree[f"cache/h{n - 1}.h"] = ""
        return tree

    def test_chain(self):
        self.assertEqual(rules.header_chain(self.chain(8)), [])
        self.assertEqual(len(rules.header_chain(self.chain(9))), 1)

    def test_cycle(self):
        tree = {"cache/a.h": '#include "cache/b.h"\n',
                "cache/b.h": '#include "cache/a.h"\n'}
        self.assertTrue(rules.header_chain(tree))


class Others(unittest.TestCase):
    def test_share_of_tests(self):
        tree = {"cache/a.cc": "int a;\n" * 10,
                "tests/cache/a_test.cc": "int a;\n" * 8}
        self.assertEqual(rules.test_share(tree), [])
        tree["cache/a.cc"] += "int b;\n"
        self.assertEqual(len(rules.test_share(tree)), 1)

    def test_marks(self):
        self.assertEqual(
            rules.unfinished_marks({"cache/a.cc": "// TODO(#12): x\n"}), [])
        self.assertEqual(
            len(rules.unfinished_marks({"cache/a.cc": "// TODO: x\n"})), 1)

    def test_top_level(self):
        self.assertEqual(rules.top_level(["cache", ".ci", "build"]), [])
        self.assertEqual(len(rules.top_level(["src"])), 1)


if __name__ == "__main__":
    unittest.main()
