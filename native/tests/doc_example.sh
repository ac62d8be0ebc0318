#!/bin/sh
# Description: the first example of a document is at most 15 lines, compiles, and prints what it says.
# usage: doc_example.sh COMPILER DOCUMENT INCLUDES LIBRARY WHAT-IT-PRINTS
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
# The first C block.
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$2" >"$work/example.c"
lines=$(grep -c . "$work/example.c")
[ "$lines" -le 15 ] || { echo "the example has $lines lines" >&2; exit 1; }
# shellcheck disable=SC2086 # the compiler may carry flags
$1 -std=gnu11 -Wall -Wextra -Werror -I"$3" -o "$work/example" "$work/example.c" "$4"
said=$("$work/example")
[ "$said" = "$5" ] || { echo "the example printed '$said'" >&2; exit 1; }
