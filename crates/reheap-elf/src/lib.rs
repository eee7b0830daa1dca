//! Musl libc archives and ELF files as values: read, derive, audit, mark, identify.
