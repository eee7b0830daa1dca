# Everything is in xtask; these are short names for it. Not `cargo xtask`, which is silent while it builds itself.
XTASK = cargo run --package xtask --

.PHONY: demo demo-all test ci bench

demo: ; $(XTASK) demo

demo-all: ; $(XTASK) demo --all

test ci: ; $(XTASK) ci

bench: ; $(XTASK) measure
