//! What allocators write when they notice that a program misuses memory.

/// What an allocator writes on stderr when it notices that a program misuses memory.
#[derive(Debug)]
pub struct Complaints {
    /// How such lines begin. A `|` is left out, as in [`Evidence`](crate::catalogue::Evidence).
    pub beginnings: &'static [&'static str],
    /// Those that may have no line end, so that the next words in the line are somebody else's.
    pub unfinished: &'static [&'static str],
    /// The variable without which it writes nothing.
    pub variable: Option<(&'static str, &'static str)>,
}

impl Complaints {
    /// It notices nothing, or ends the program without a word.
    pub const NONE: Self = Self {
        beginnings: &[],
        unfinished: &[],
        variable: None,
    };

    /// "mimalloc: error: double free detected of block 0x… with size 64".
    pub const MIMALLOC: Self = Self {
        beginnings: &["mimal|loc: error: "],
        variable: Some(("MIMALLOC_SHOW_ERRORS", "1")),
        ..Self::NONE
    };
    /// "<jemalloc>: size mismatch detected …", if its checks are on.
    pub const JEMALLOC: Self = Self {
        beginnings: &["<jemal|loc>: "],
        ..Self::NONE
    };
    /// "fatal allocator error: double free".
    pub const HARDENED_MALLOC: Self = Self {
        beginnings: &["fatal allocator |error: "],
        ..Self::NONE
    };
    /// What `glue/snmalloc.c` makes of upstream's trap.
    pub const SNMALLOC: Self = Self {
        beginnings: &["snmalloc: the heap |is corrupted"],
        ..Self::NONE
    };
    /// The texts that glibc's malloc.c gives to `malloc_printerr`. musl's malloc ends a program without a word.
    pub const GLIBC: Self = Self {
        beginnings: &[
            "free(): ",
            "malloc(): ",
            "malloc: ",
            "realloc(): ",
            "double free or corruption",
            "corrupted double-linked list",
            "corrupted size vs. prev_size",
            "malloc_check_get_size: ",
            "malloc_consolidate(): ",
            "mremap_chunk(): ",
            "munmap_chunk(): ",
        ],
        // Those of its library for debugging.
        unfinished: &[
            "free(): invalid pointer",
            "realloc(): invalid pointer",
            "malloc: top chunk is corrupt",
            "malloc_check_get_size: memory corruption",
        ],
        variable: None,
    };

    /// The complaint that a line begins with.
    pub fn in_front_of<'a>(&self, line: &'a str) -> Option<&'a str> {
        let begins = |beginning: &&str| line.starts_with(&beginning.replace('|', ""));
        if !self.beginnings.iter().any(begins) {
            return None;
        }
        let mut unfinished = self.unfinished.iter();
        let text = unfinished.find(|text| line.starts_with(**text));
        Some(text.map_or(line, |text| &line[..text.len()]))
    }
}
