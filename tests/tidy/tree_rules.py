"""The rules of the house, read off the sources as text.

Each rule is a function from a tree (path -> text) to a list of complaints, so
that tests can hand it a made-up tree. `python3 tree_rules.py ROOT` applies all
of them to a checkout and exits 1 if any complains.
"""
import os
import re
import statistics
import sys

MAX_FILE_LINES = 600
MAX_MEDIAN_LINES = 150
MAX_FUNCTION_LINES = 70
MAX_HEADER_CHAIN = 8
MAX_COLUMNS = 80
# A ratchet on the way to 0.8: raise it when a room has earned more.
MIN_TEST_TO_CODE = {"cache/": 0.8, "engine/": 0.8,
                    "server/": 0.5}

SOURCE_DIRS = ("cache", "engine", "server", "tests")
ENDINGS = (".h", ".cc", ".cu", ".cuh")
TOP_LEVEL = {"proto", "server", "engine", "cache", "deploy", "tests",
             "CMakeLists.txt", "CMakePresets.json", "Dockerfile", "README.md",
             "LICENSE"}

# room -> (our own headers it may include, libraries it may include).
# The first room whose prefix matches a file is its room.
BASE = r"cache/base/"
BACKEND = BASE + r"|cache/kv_layout\.h$|engine/backend/(?!cuda/)"
MODEL = BACKEND + r"|engine/model/"
STD_ABSL = r"absl/"
ROOMS = [
    ("cache/base/", BASE, STD_ABSL),
    ("cache/memory/cuda_memory", r"cache/", STD_ABSL + "|cuda"),
    ("cache/", r"cache/", STD_ABSL + "|openssl/"),
    ("engine/backend/cuda/", BACKEND + "|engine/backend/cuda/",
     STD_ABSL + "|cuda|cublas"),
    ("engine/backend/", BACKEND, STD_ABSL + "|hwy/"),
    ("engine/template/", BASE + r"|engine/template/",
     STD_ABSL + r"|nlohmann/json\.hpp$"),
    ("engine/model/", MODEL + r"|engine/template/",
     STD_ABSL + "|openssl/|pcre2"),
    ("engine/", MODEL + r"|cache/|engine/[a-z_]+\.h$", STD_ABSL + "|openssl/"),
    ("server/", BASE + r"|cache/(snapshot|retention|resize_planner)\.h$|"
     r"server/|proto/|"
     r"engine/(engine|request|token_sink|engine_stats|cache_resize|"
     r"served_version|version_order|prefix_order|"
     r"warm_order|model_info)\.h$|"
     r"engine/model/(tokenizer|chat_format|utf8)\.h$",
     STD_ABSL + "|grpc|google/|prometheus/|nlohmann/|yaml-cpp/|CLI/|httplib|"
     "openssl/|kvasir/v1/"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def read_tree(root):
    tree = {}
    for top in SOURCE_DIRS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith(ENDINGS):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        tree[os.path.relpath(path, root)] = file.read()
    return tree


def product(tree):
    return {p: t for p, t in tree.items() if not p.startswith("tests/")}


def is_system(name):
    """A C or C++ standard header or one of the operating system."""
    return "/" not in name and (not name.endswith(".h") or name in {
        "dirent.h", "errno.h", "fcntl.h", "immintrin.h", "malloc.h",
        "math.h", "netdb.h", "poll.h",
        "pthread.h", "sched.h", "signal.h", "stdint.h", "stdlib.h", "string.h",
        "termios.h", "time.h", "unistd.h"}) or name.startswith(
            ("sys/", "linux/", "netinet/", "arpa/"))


def floor_plan(tree):
    out = []
    for path, text in sorted(product(tree).items()):
        room = next((r for r in ROOMS if path.startswith(r[0])), None)
        if room is None:
            out.append(f"{path}: lies in no room of the floor plan")
            continue
        prefix, ours, libraries = room
        for quote, name in INCLUDE.findall(text):
            if is_system(name) or re.match(libraries, name):
                continue
            if quote == '"' and re.match(ours, name):
                continue
            out.append(f"{path}: {prefix} may not include {name}")
    return out


def file_size(tree):
    out = [f"{p}: {n} lines, at most {MAX_FILE_LINES}"
           for p, t in sorted(tree.items())
           if (n := t.count("\n")) > MAX_FILE_LINES]
    sizes = [t.count("\n") for t in product(tree).values()]
    if sizes and (median := statistics.median(sizes)) > MAX_MEDIAN_LINES:
        out.append(f"median file has {median} lines, at most "
                   f"{MAX_MEDIAN_LINES}")
    return out


def line_width(tree):
    return [f"{p}:{i}: {len(line)} columns, at most {MAX_COLUMNS}"
            for p, t in sorted(tree.items())
            for i, line in enumerate(t.split("\n"), 1)
            if len(line) > MAX_COLUMNS and "http" not in line
            and not INCLUDE.match(line) and 'R"' not in line]


# In code that clang-format wrote, a function's body ends with a brace in the
# column where its head began. What opens such a brace without being a function:
NOT_A_FUNCTION = re.compile(
    r"^\s*(namespace|class|struct|enum|union|extern|if|for|while|switch|do|"
    r"else|case|default|try|return|static_assert|typedef|using|public|private|"
    r"protected|#|//|\})\b|^\s*[\w:<>,\s*&]+=[^=]|^\s*\}|"
    r"^\s*(HWY_(BEFORE|AFTER)_NAMESPACE|TEST|TEST_P|TEST_F|TYPED_TEST)\b")
HEAD = re.compile(r"^(\s*)[A-Za-z_~\[].*\(")


def functions(text):
    """Yields (first line, number of lines, head) of each function."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        head = HEAD.match(line)
        if not head or NOT_A_FUNCTION.match(line):
            continue
        indent = head.group(1)
        for j in range(i, len(lines)):
            stripped = lines[j].rstrip()
            if stripped.endswith(";") and j < i + 12 and not any(
                    k.rstrip().endswith("{") for k in lines[i:j + 1]):
                break
            if j > i and stripped in (indent + "}", indent + "};"):
                yield i + 1, j - i + 1, line.strip()
                break
            if j > i and stripped and not stripped.startswith(indent):
                break


def function_size(tree):
    return [f"{p}:{first}: function of {n} lines, at most "
            f"{MAX_FUNCTION_LINES}: {head}"
            for p, t in sorted(tree.items())
            for first, n, head in functions(t) if n > MAX_FUNCTION_LINES]


def header_chain(tree):
    depth = {}

    def measure(path, seen):
        if path in seen:
            return None
        if path not in depth:
            below = [measure(n, seen + (path,))
                     for _, n in INCLUDE.findall(tree[path]) if n in tree]
            if None in below:
                return None
            depth[path] = 1 + max(below, default=0)
        return depth[path]

    out = []
    for path in sorted(product(tree)):
        if not path.endswith(".h"):
            continue
        n = measure(path, ())
        if n is None:
            out.append(f"{path}: includes itself through others")
        elif n > MAX_HEADER_CHAIN:
            out.append(f"{path}: header chain of {n}, at most "
                       f"{MAX_HEADER_CHAIN}")
    return out


def include_guard(tree):
    out = []
    for path, text in sorted(tree.items()):
        if not path.endswith(".h") or path.endswith("-inl.h"):
            continue
        guard = "KVASIR_" + re.sub(r"[/.\-]", "_", path).upper() + "_"
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            out.append(f"{path}: wants include guard {guard}")
    return out


def code_lines(text):
    return sum(1 for line in text.split("\n")
               if line.strip() and not line.strip().startswith("//"))


def test_share(tree):
    out = []
    for room, least in MIN_TEST_TO_CODE.items():
        code = sum(code_lines(t) for p, t in tree.items()
                   if p.startswith(room))
        tests = sum(code_lines(t) for p, t in tree.items()
                    if p.startswith("tests/" + room))
        if room == "engine/":
            tests += sum(code_lines(t) for p, t in tree.items()
                         if p.startswith("tests/contract/"))
        if code and tests / code < least:
            out.append(f"{room}: {tests} lines of tests for {code} of code = "
                       f"{tests / code:.2f}, at least {least}")
    return out


def unfinished_marks(tree):
    mark = re.compile(r"\b(TODO(?!\(#\d+\))|FIXME|XXX|HACK)\b")
    return [f"{p}:{i}: unfinished: {line.strip()}"
            for p, t in sorted(tree.items())
            for i, line in enumerate(t.split("\n"), 1) if mark.search(line)]


RULES = [floor_plan, file_size, line_width, function_size, header_chain,
         include_guard, test_share, unfinished_marks]


def top_level(names):
    return [f"{n}: not part of the top level" for n in sorted(names)
            if not n.startswith(".") and n not in TOP_LEVEL
            and n not in ("build", "models")]


def main():
    root = sys.argv[1]
    tree = read_tree(root)
    complaints = top_level(os.listdir(root))
    for rule in RULES:
        complaints += [f"[{rule.__name__}] {c}" for c in rule(tree)]
    print("\n".join(complaints) or f"{len(tree)} files obey all rules")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
