# Thin: every target calls one script; `make help` lists them.
#   make install PREFIX=/usr/local DESTDIR= LIBDIR=lib
#   V=1 shows the tools' output as it comes; MARU_JOBS=N bounds parallel compilation.

PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= lib

# Each target's parts run in their order, also under `make -j`; the scripts use all cores themselves.
.NOTPARALLEL:

.PHONY: help setup build grammars demo check test soak verify test-aarch64 bench doc install uninstall deb deb-check bundle bundle-check release-check fresh-check test-ghc format lint sanitize clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 14

setup: ## install the Debian packages that are missing (root or sudo)
	@scripts/setup

build: ## stage everything below build/
	@scripts/build

grammars: setup ## syntax trees of more languages for maru similar: LANGUAGES="python c", all by default
	@scripts/grammars $(or $(LANGUAGES),all)

demo: setup build ## find similar programs in a small corpus: under 10 minutes from a clean clone
	@scripts/demo

check: setup build ## what the change at hand touches, in five minutes; BASE=COMMIT
	@scripts/check $(BASE)

test: ## set up, build, run every test; prints the time of each part
	@scripts/test

soak: setup build ## the tests again at length (MARU_TEST_SCALE, default 50); installs more programs to test
	@scripts/soak

verify: setup ## check the models of the protocols without a bound, a million schedules of the dsm core
	@scripts/verify

sanitize: setup ## the C tests under ASan + UBSan and under TSan
	@scripts/test --only sanitizer

test-aarch64: setup build ## the C part for aarch64, under qemu; installs a cross compiler
	@scripts/test-aarch64

bench: setup build ## measure; writes to build/bench
	@scripts/bench

doc: setup ## Haddock of every Haskell package, below build/share/doc
	@scripts/doc

install: ## copy what `make build` staged to PREFIX; over an older one, too
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' LIBDIR='$(LIBDIR)' scripts/install

uninstall: ## remove what `make install` copied to PREFIX
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install --remove

deb: setup ## Debian packages of the tracked files as they are, below build/deb
	@scripts/deb

deb-check: ## the packages in a bare root of Debian 12 (root)
	@scripts/deb-check

bundle: setup build ## one archive that runs from any folder of any Linux, without installing
	@scripts/bundle

bundle-check: bundle ## the archive in bare roots of Debian 12 and 13 (root)
	@scripts/bundle-check

release-check: setup ## all that a release has, into three fresh roots, with README's five minutes in each (root)
	@scripts/release-check

SUITE ?=
TARGETS ?=

fresh-check: ## make demo and make test in a new Debian chroot (root); SUITE=bookworm TARGETS="setup build bench"
	@SUITE='$(SUITE)' scripts/fresh-check $(TARGETS)

test-ghc: ## what a GHC can break, in a root of a Debian suite (root); SUITE=trixie
	@scripts/test-ghc $(or $(SUITE),trixie)

format: setup ## format C and Haskell in place
	@scripts/format

lint: setup ## formatting, hlint, shellcheck; changes nothing
	@scripts/lint

clean: ## remove build/
	rm -rf build
