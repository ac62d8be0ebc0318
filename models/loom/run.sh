#!/bin/sh
# Runs the transcriptions for loom (src/main.rs), where cargo and the crate are at hand.
#
# usage: models/loom/run.sh FOLDER [WORD]     builds in FOLDER; those whose names hold WORD
# A line each, PASS or FAIL; status 1 if any failed; one line and status 0 where it cannot be built.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=$1
if ! command -v cargo >/dev/null; then
  echo "skipped: transcriptions for loom: no cargo"
  exit 0
fi
mkdir -p "$folder"
cp -R "$here/Cargo.toml" "$here/src" "$folder"
cd "$folder"
if ! cargo tree --offline --quiet >tree.log 2>&1; then
  echo "skipped: transcriptions for loom: the crate is not at hand; \`cargo fetch\` in $folder brings it"
  exit 0
fi
cargo build --release --offline --quiet
exec target/release/maru-loom ${2+"$2"}
