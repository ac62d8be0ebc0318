# shellcheck shell=bash
# Sourced after roots.sh by what installs maru into a fresh root: README.md's five minutes there. Its
# commands run as typed, from PREFIX; its programs are compiled against what lies there.

# shellcheck disable=SC2034 # it is used where this is sourced
# What a reader has for its commands, and for its programs in C and C++.
readme_needs='python3 procps openmpi-bin gcc g++ libc6-dev pkg-config'

# The samples are made here: of the same Debian or an older one.
readme_commands() { # SYSTEM PREFIX
  rm -rf "$1/root/maru" "$1/root/samples"
  mkdir -p "$1/root/maru"
  cp -R "$root/README.md" "$root/docs" "$root/scripts" "$1/root/maru/"
  "$root/scripts/samples" "$1/root/samples"
  inside "$1" "export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    cd /root/maru; scripts/run-documents $2 /root/samples README.md"
}

readme_in_c() { # SYSTEM PREFIX
  cp "$root"/examples/channel.* "$root"/examples/cpp/* "$1/root/"
  inside "$1" "cd /root; export PATH=$2/bin:\$PATH PKG_CONFIG_PATH=$2/lib/pkgconfig"'
    cc -o channel channel.c $(pkg-config --cflags --libs maru); ./channel | diff channel.expected -
    c++ -std=c++17 -o lock lock.cpp $(pkg-config --cflags --libs maru); ./lock | diff lock.expected -
    c++ -std=c++17 -o words words.cpp $(pkg-config --cflags --libs maru-dsm); maru launch -n 3 -- ./words | sed "s/^\[0\] //" | diff words.expected -'
}

readme_in_haskell() { # SYSTEM GHC-FLAG...
  awk '/^```haskell$/ { on = 1; next } /^```$/ { if (on) exit } on' "$root/README.md" >"$1/root/sum.hs"
  inside "$1" "cd /root; ghc -v0 ${*:2} -threaded sum.hs -o sum; [ \"\$(./sum)\" = 5150 ]; echo './sum: 5150'"
}

# The crate with the cargo and the crates of that Debian, against what pkg-config finds in PREFIX.
readme_in_rust() { # SYSTEM PREFIX
  rm -rf "$1/root/crate"
  cp -R "$root/rust/maru-lock" "$1/root/crate"
  inside "$1" "apt-get -qq install -y --no-install-recommends cargo librust-lock-api-dev
    cd /root/crate; export PKG_CONFIG_PATH=$2/lib/pkgconfig; cargo --version"'
    mkdir .cargo
    printf "[source.crates-io]\nreplace-with = \"debian\"\n[source.debian]\ndirectory = \"/usr/share/cargo/registry\"\n" >.cargo/config.toml
    cargo test --offline --tests | tee said; grep -q "^test result: ok. 17 passed" said
    cargo run --offline --quiet --example counter | diff examples/counter.expected -'
}
