//! Runs variants of a command side by side and measures time and memory.
