//! What allocators write when they notice that a program misuses memory.
//!
//! Only texts that say so count. With the same beginning, allocators also tell that there is no memory, or that an
//! option is unknown. The texts are those of the sources that the catalogue names, without what only a build for
//! debugging says, and those of glibc 2.36 with its library for debugging, and of some older and newer ones. If an
//! update of an allocator brings a new one, it goes here.

use memchr::memmem;
use std::ops::Range;

/// What an allocator writes on stderr when it notices that a program misuses memory.
#[derive(Debug)]
pub struct Complaints {
    /// Its messages.
    pub messages: &'static [Messages],
    /// The variable without which it writes nothing.
    pub variable: Option<(&'static str, &'static str)>,
}

/// Messages that begin alike. A `|` is left out, as in [`Evidence`](crate::catalogue::Evidence).
#[derive(Debug)]
pub struct Messages {
    /// How they begin.
    pub beginning: &'static str,
    /// How they go on. A `*` in front is the name of a function.
    pub then: &'static [&'static str],
    /// Where they end.
    pub end: MessageEnd,
}

/// Where a message ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageEnd {
    /// With its text, so that the next words in the line are somebody else's.
    WithText,
    /// With the line: figures follow the text.
    WithLine,
}

use MessageEnd::{WithLine, WithText};

impl Complaints {
    /// It notices nothing, or ends the program without a word.
    pub const NONE: Self = Self {
        messages: &[],
        variable: None,
    };

    /// "mimalloc: error: double free detected of block 0x… with size 64": `_mi_error_message` where it is about a block
    /// or a list.
    pub const MIMALLOC: Self = Self {
        messages: &[Messages {
            beginning: "mimal|loc: error: ",
            then: &[
                "double free detected of block ",
                "buffer overflow in heap block ",
                "buffer overflow in theap block ",
                "corrupted free list entry of size ",
                "corrupted thread-free list",
                "corrupted meta-data in thread-free list",
                "reading from invalid page, possibly corrupted meta-data",
                "segment map found an invalid segment, possibly corrupted meta-data",
                "trying to free an already freed arena block: ",
                "trying to free from an invalid arena: ",
                "trying to free from an invalid arena block: ",
                "*: invalid (unaligned) pointer: ",
                "*: invalid pointer: ",
                "*: pointer does not point to a valid heap space: ",
            ],
            end: WithLine,
        }],
        variable: Some(("MIMALLOC_SHOW_ERRORS", "1")),
    };
    /// "<jemalloc>: size mismatch detected …": what it gives to `safety_check_fail`, in part without its name. Some of it
    /// needs checks that are off by default.
    pub const JEMALLOC: Self = Self {
        messages: &[
            Messages {
                beginning: "<jemal|loc>: ",
                then: &[
                    "size mismatch detected (true size ",
                    "Write-after-free detected on deallocated pointer ",
                    "Invalid deallocation detected in ",
                ],
                end: WithLine,
            },
            Messages {
                beginning: "Invalid deallocation detected: ",
                then: &[
                    "double free of pointer ",
                    "pages being freed (",
                    "the pointer being freed (",
                ],
                end: WithLine,
            },
            Messages {
                beginning: "",
                then: &[
                    "Internal heap corruption detected: mismatch in slab bit",
                    "Use after free error",
                    "Called realloc(non-null-ptr, 0) with zero_realloc:abort set",
                ],
                end: WithText,
            },
        ],
        variable: None,
    };
    /// "fatal allocator error: double free".
    pub const HARDENED_MALLOC: Self = Self {
        messages: &[Messages {
            beginning: "fatal allocator |error: ",
            then: &[
                "canary corrupted",
                "detected write after free",
                "double free",
                "double free |(quarantine)",
                "invalid free",
                "invalid free within a slab yet to be used",
                "invalid malloc_object_size",
                "invalid malloc_object_size (canary)",
                "invalid malloc_object_size (quarantine)",
                "invalid malloc_usable_size",
                "invalid malloc_usable_size (quarantine)",
                "invalid realloc",
                "invalid sized deallocation alignment (small)",
                "invalid unaligned free",
                "invalid unaligned malloc_usable_size",
                "invalid uninitialized |allocator usage",
                "sized deallocation mismatch (large)",
                "sized deallocation mismatch (small)",
            ],
            end: WithText,
        }],
        variable: None,
    };
    /// What `glue/snmalloc.c` makes of upstream's trap. All that upstream itself writes in such a build is that there is
    /// no memory.
    pub const SNMALLOC: Self = Self {
        messages: &[Messages {
            beginning: "snmalloc: the heap |",
            then: &["is corrupted, or what was freed is no block, or of another size"],
            end: WithText,
        }],
        variable: None,
    };
    /// What glibc's malloc.c gives to `malloc_printerr`, and mcheck.c. musl's malloc ends a program without a word.
    pub const GLIBC: Self = Self {
        messages: &[
            Messages {
                beginning: "free(): ",
                then: &[
                    "chunks in smallbin corrupted",
                    "corrupted unsorted chunks",
                    "double free detected in tcache 2",
                    "invalid |next size (fast)",
                    "invalid next size (normal)",
                    "invalid pointer",
                    "invalid size",
                    "too many chunks detected in tcache",
                    "unaligned chunk detected in tcache 2",
                ],
                end: WithText,
            },
            Messages {
                beginning: "malloc(): ",
                then: &[
                    "corrupted |top size",
                    "corrupted unsorted chunks",
                    "corrupted unsorted chunks 2",
                    "corrupted unsorted chunks 3",
                    "invalid next size (unsorted)",
                    "invalid next->prev_inuse (unsorted)",
                    "invalid size (unsorted)",
                    "largebin double linked list corrupted (bk)",
                    "largebin double linked list corrupted (nextsize)",
                    "memory corruption",
                    "memory corrup|tion (fast)",
                    "mismatching next->prev_size (unsorted)",
                    "smallbin double linked list corrupted",
                    "unaligned fastbin chunk detected",
                    "unaligned fastbin chunk detected 2",
                    "unaligned fastbin chunk detected 3",
                    "unaligned tcache chunk detected",
                    "unsorted double linked list corrupted",
                ],
                end: WithText,
            },
            Messages {
                beginning: "realloc(): ",
                then: &["invalid next size", "invalid old size", "invalid pointer"],
                end: WithText,
            },
            Messages {
                beginning: "malloc_consolidate(): ",
                then: &["invalid chunk size", "unaligned fastbin chunk detected"],
                end: WithText,
            },
            Messages {
                beginning: "double free or corruption (",
                then: &["!prev)", "fasttop)", "out)", "top)"],
                end: WithText,
            },
            Messages {
                beginning: "corrupted size vs. prev_size",
                then: &["", " in fastbins", " while consolidating"],
                end: WithText,
            },
            Messages {
                beginning: "corrupted double-linked list",
                then: &["", " (not small)"],
                end: WithText,
            },
            Messages {
                beginning: "",
                then: &[
                    "__malloc_info(): unaligned fastbin chunk detected",
                    "block freed twice",
                    "break adjusted to free malloc space",
                    "int_mallinfo(): unaligned fastbin chunk detected",
                    "malloc: top chunk is corrupt",
                    "malloc_check_get_size: memory corruption",
                    "memory clobbered before allocated block",
                    "memory clobbered past end of allocated block",
                    "mremap_chunk(): invalid pointer",
                    "munmap_chunk(): invalid pointer",
                    "tcache_thread_shutdown(): unaligned tcache chunk detected",
                ],
                end: WithText,
            },
        ],
        variable: None,
    };

    /// Whether the allocator ends the program after each of them. One that has to be asked to speak only warns.
    pub fn are_last_words(&self) -> bool {
        self.variable.is_none()
    }

    /// The first complaint in a line. It may begin in the middle: whoever wrote before may not have ended the line.
    pub fn find(&self, line: &[u8]) -> Option<Range<usize>> {
        let found = self
            .messages
            .iter()
            .filter_map(|message| message.find(line));
        found.min_by_key(|range| range.start)
    }
}

impl Messages {
    fn find(&self, line: &[u8]) -> Option<Range<usize>> {
        let texts = || self.then.iter().map(|text| text.replace('|', ""));
        if self.beginning.is_empty() {
            let of_text = |text: String| {
                let start = memmem::find(line, text.as_bytes())?;
                Some(start..self.end_of(line, start + text.len()))
            };
            return texts().filter_map(of_text).min_by_key(|range| range.start);
        }
        let beginning = self.beginning.replace('|', "");
        memmem::find_iter(line, &beginning).find_map(|start| {
            let behind = start + beginning.len();
            let rest = &line[behind..];
            let skipped = thread_in_front_of(rest);
            let lengths = texts().filter_map(|text| length_in_front_of(&rest[skipped..], &text));
            let length = lengths.max()?;
            Some(start..self.end_of(line, behind + skipped + length))
        })
    }

    fn end_of(&self, line: &[u8], end_of_text: usize) -> usize {
        match self.end {
            WithText => end_of_text,
            WithLine => line.len(),
        }
    }
}

/// The length of mimalloc's "thread 0x…: ", which it writes unless it is the first one.
fn thread_in_front_of(rest: &[u8]) -> usize {
    let Some(number) = rest.strip_prefix(b"thread 0x") else {
        return 0;
    };
    let digits = number
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    if number[digits..].starts_with(b": ") {
        rest.len() - number.len() + digits + 2
    } else {
        0
    }
}

/// The length of a text that stands there.
fn length_in_front_of(rest: &[u8], text: &str) -> Option<usize> {
    let (name, text) = match text.strip_prefix('*') {
        Some(text) => {
            let is_of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
            (rest.iter().take_while(is_of_name).count(), text)
        }
        None => (0, text),
    };
    rest[name..]
        .starts_with(text.as_bytes())
        .then_some(name + text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn found(complaints: &Complaints, line: &str) -> Option<String> {
        let range = complaints.find(line.as_bytes())?;
        Some(line[range].to_owned())
    }

    #[test]
    fn a_misuse_of_memory_is_found_wherever_it_is_in_a_line() {
        for (complaints, text) in [
            (
                Complaints::MIMALLOC,
                "mimalloc: error: double free detected of block 0x1A0 with size 80",
            ),
            (
                Complaints::MIMALLOC,
                "mimalloc: error: thread 0x7F21: buffer overflow in theap block 0x1A0 of size 64: write after 64 bytes",
            ),
            (
                Complaints::MIMALLOC,
                "mimalloc: error: mi_free: pointer does not point to a valid heap space: 0x1",
            ),
            (
                Complaints::JEMALLOC,
                "<jemalloc>: size mismatch detected (true size 64 vs input size 32), likely caused by",
            ),
            (
                Complaints::JEMALLOC,
                "Invalid deallocation detected: double free of pointer 0x1",
            ),
            (
                Complaints::HARDENED_MALLOC,
                "fatal allocator error: double free (quarantine)",
            ),
            (
                Complaints::SNMALLOC,
                "snmalloc: the heap is corrupted, or what was freed is no block, or of another size",
            ),
            (Complaints::GLIBC, "malloc(): corrupted unsorted chunks 2"),
            (Complaints::GLIBC, "corrupted size vs. prev_size"),
            (Complaints::GLIBC, "munmap_chunk(): invalid pointer"),
        ] {
            let of_program = format!("50 %{text}");
            assert_eq!(found(&complaints, &of_program).as_deref(), Some(text));
        }
    }

    #[test]
    fn no_memory_an_option_and_words_of_a_program_are_no_misuse() {
        for (complaints, text) in [
            (
                Complaints::MIMALLOC,
                "mimalloc: error: unable to allocate memory (1152921504606846976 bytes)",
            ),
            (
                Complaints::MIMALLOC,
                "mimalloc: warning: environment option mimalloc_show_errors has an invalid value.",
            ),
            (
                Complaints::MIMALLOC,
                "mimalloc: warning: mi_free: pointer might not point to a valid heap region: 0x1",
            ),
            (
                Complaints::JEMALLOC,
                "<jemalloc>: Invalid conf pair: abcd:true",
            ),
            (
                Complaints::JEMALLOC,
                "<jemalloc>: Error in malloc(): out of memory",
            ),
            (
                Complaints::HARDENED_MALLOC,
                "fatal allocator error: failed to allocate slab region",
            ),
            (Complaints::SNMALLOC, "snmalloc: out of memory"),
            (Complaints::GLIBC, "malloc: out of memory"),
            (Complaints::GLIBC, "malloc(): Cannot allocate memory"),
            (Complaints::GLIBC, "free(): a word of mine"),
        ] {
            assert_eq!(found(&complaints, text), None);
        }
    }

    #[test]
    fn what_others_write_behind_a_whole_text_is_not_of_it() {
        let found = |line| found(&Complaints::GLIBC, line);
        assert_eq!(
            found("free(): invalid pointerwords").as_deref(),
            Some("free(): invalid pointer")
        );
        assert_eq!(
            found("free(): my own, free(): invalid size").as_deref(),
            Some("free(): invalid size")
        );
    }
}
