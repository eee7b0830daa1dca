# Everything is in xtask and lab; these are short names for it. Not `cargo xtask`, which is silent while it builds itself.
# As a part of the whole workspace, because what it has in common with the tests is compiled once then.
XTASK = cargo build --workspace --bin xtask && $${CARGO_TARGET_DIR:-target}/debug/xtask
LAB = cargo run --package lab --

# How many seconds of processor time `make fuzz` spends on each target.
FUZZ_SECONDS = 3600

.PHONY: demo demo-all test test-all test-targets ci bench bench-real fuzz docs dist test-crates test-dist

demo: ; $(LAB) demo

demo-all: ; $(LAB) demo --all

# What the tests need comes first: a test that lacks a tool would say so only after minutes of compiling.
test ci:
	@xtask/prepare
	$(XTASK) ci

# What a release needs.
test-all:
	@xtask/prepare
	$(XTASK) ci --all
	$(XTASK) test-crates
	$(XTASK) test-targets

test-targets:
	@xtask/prepare
	$(XTASK) test-targets

bench: ; $(LAB) measure

# Programs that nobody here wrote; about two hours, most of it compiling.
bench-real: ; $(LAB) measure --real --rounds 12

fuzz:
	@xtask/prepare fuzz
	$(LAB) fuzz --seconds $(FUZZ_SECONDS)

docs:
	@xtask/prepare docs
	$(XTASK) docs

dist:
	@xtask/prepare dist
	$(XTASK) dist

test-crates:
	@xtask/prepare
	$(XTASK) test-crates

test-dist:
	@xtask/prepare test-dist
	$(XTASK) test-dist
