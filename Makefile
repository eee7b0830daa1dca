# Everything is in xtask; these are short names for it. Not `cargo xtask`, which is silent while it builds itself.
XTASK = cargo run --package xtask --

.PHONY: demo demo-all test test-targets ci bench dist test-dist

demo: ; $(XTASK) demo

demo-all: ; $(XTASK) demo --all

# What the tests need comes first: a test that lacks a tool would say so only after minutes of compiling.
test ci:
	@xtask/prepare
	$(XTASK) ci

test-targets:
	@xtask/prepare
	$(XTASK) test-targets

bench: ; $(XTASK) measure

dist:
	@xtask/prepare dist
	$(XTASK) dist

test-dist:
	@xtask/prepare test-dist
	$(XTASK) test-dist
