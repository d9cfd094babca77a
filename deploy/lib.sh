# Shared by the scripts of this folder; sourced, not run. Needs bash.
# Everything a script tells a person goes to stderr, so that stdout carries
# only what another program may want to read.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
logs="$repo/build/logs"

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
note() { printf '    %s\n' "$*" >&2; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
if [ ! -t 2 ] || [ -n "${NO_COLOR:-}" ]; then
  say() { printf '==> %s\n' "$*" >&2; }
fi

build_packages=(
  g++ cmake ninja-build pkg-config git ca-certificates
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libabsl-dev prometheus-cpp-dev libhwy-dev libpcre2-dev libssl-dev
  nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libcpp-httplib-dev
)
model_packages=(python3 python3-pip)
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev python3-venv
  clang clang-format clang-tidy libclang-rt-14-dev prometheus
)

# Runs a command as root: directly, or through sudo.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "installing packages needs root: run as root, or install sudo"
  fi
}

# Installs those of the named Debian packages that are missing.
need_packages() {
  command -v apt-get >/dev/null ||
    fail "this is not a Debian system (no apt-get); install by hand: $*"
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
      grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "Installing ${#missing[@]} Debian packages (once)"
  note "${missing[*]}"
  mkdir -p "$logs"
  as_root apt-get update >"$logs/apt.log" 2>&1 ||
    fail "apt-get update failed, is there a network? See $logs/apt.log"
  # Installed services must not start by themselves (Debian's policy-rc.d).
  as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get install -y --no-install-recommends "${missing[@]}" \
    >>"$logs/apt.log" 2>&1 ||
    fail "apt-get could not install: ${missing[*]}. $(
      grep -m1 '^E:' "$logs/apt.log" || true) See $logs/apt.log"
}

# Shows ninja's progress: each step in a terminal, every tenth part elsewhere.
build_progress() {
  if [ -t 2 ]; then
    cat >&2
  else
    awk '
      match($0, /^\[[0-9]+\/[0-9]+\]/) {
        split(substr($0, 2, RLENGTH - 2), n, "/")
        part = int(10 * n[1] / n[2])
        if (part != last) { print "    " n[1] " of " n[2] " steps"; last = part
                            fflush() }
        next
      }
      { print; fflush() }' >&2
  fi
}

# build PRESET TARGET...: configures and builds; quick if nothing changed.
build() {
  local preset=$1 started=$SECONDS
  shift
  mkdir -p "$logs"
  say "Building ($preset)"
  (cd "$repo" && cmake --preset "$preset" "${cmake_options[@]}") \
    >"$logs/configure-$preset.log" 2>&1 ||
    fail "cmake could not configure preset $preset: $(
      grep -m1 -A2 'CMake Error' "$logs/configure-$preset.log" | tr '\n' ' ' || true
    ) See $logs/configure-$preset.log"
  local targets=()
  [ $# -gt 0 ] && targets=(--target "$@")
  (cd "$repo" && cmake --build --preset "$preset" "${targets[@]}") 2>&1 |
    tee "$logs/build-$preset.log" | build_progress ||
    fail "the build failed: $(
      grep -m1 -E 'error|Killed' "$logs/build-$preset.log" || true
    ) See $logs/build-$preset.log"
  note "done in $((SECONDS - started)) s"
}
cmake_options=()
