#!/usr/bin/env bash
# Runs the tests on each supported Python with the locked versions, and on the oldest and the newest
# Python with the lowest versions that the distributions admit. Every run has an environment of its
# own in a temporary folder, so neither `.venv` nor `uv.lock` is touched.
# Usage: scripts/matrix.sh [PYTEST ARGUMENT…]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pythons=(3.11 3.12 3.13)
environments=$(mktemp -d)
trap 'rm -rf "$environments"' EXIT
failed=()

# report NAME COMMAND…: run a command under a heading and remember whether it failed.
report() {
  printf '\n=== %s\n' "$1"
  "${@:2}" || failed+=("$1")
}

# locked PYTHON ARGUMENT…: run pytest on the versions of uv.lock.
locked() {
  UV_PROJECT_ENVIRONMENT="$environments/locked-$1" uv run --locked --python "$1" pytest "${@:2}"
}

# lowest PYTHON ARGUMENT…: run pytest on the lowest versions; each must have a wheel for it.
lowest() {
  local environment=$environments/lowest-$1 packages=()
  for package in packages/* benchmarks; do packages+=(--editable "$package"); done
  uv venv --quiet --python "$1" "$environment" &&
    uv pip install --quiet --python "$environment" --resolution lowest-direct --no-build \
      --group dev "${packages[@]}" &&
    "$environment/bin/python" -m pytest "${@:2}"
}

for python in "${pythons[@]}"; do
  report "Python $python, locked versions" locked "$python" "$@"
done
for python in "${pythons[0]}" "${pythons[-1]}"; do
  report "Python $python, lowest versions" lowest "$python" "$@"
done

if [ ${#failed[@]} -gt 0 ]; then
  printf '\n=== FAILED: %s\n' "$(IFS=';'; echo "${failed[*]}")"
  exit 1
fi
printf '\n=== everything passed\n'
