//! Where a file has its memory functions: memcpy, memset, strlen and the like.
//!
//! glibc has each of them several times, for different CPUs, and a stripped libc.so.6 names only the functions that choose
//! one (`STT_GNU_IFUNC`). What they chose is in the process: glibc calls its own memory functions through words that the
//! dynamic linker fills in (`R_*_IRELATIVE`), and each says whose choice it holds. So the names come from symbols where
//! there are some, and from these words otherwise.

use super::flow::Flow;
use super::frames::Frames;
use crate::stacks::{Elf, Module, each_function};
use object::LittleEndian as LE;
use object::elf;
use object::pod;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Names of functions, and what they are called in a profile. memcpy and memmove share their code in most libcs.
const FUNCTIONS: [(&str, &str); 38] = [
    ("memcpy", "memcpy"),
    ("memmove", "memcpy"),
    ("mempcpy", "memcpy"),
    ("memset", "memset"),
    ("bzero", "memset"),
    ("memcmp", "memcmp"),
    ("bcmp", "memcmp"),
    ("memcmpeq", "memcmp"),
    ("memchr", "memchr"),
    ("rawmemchr", "memchr"),
    ("memrchr", "memrchr"),
    ("strlen", "strlen"),
    ("strnlen", "strnlen"),
    ("strcpy", "strcpy"),
    ("stpcpy", "strcpy"),
    ("strncpy", "strncpy"),
    ("stpncpy", "strncpy"),
    ("strcat", "strcat"),
    ("strncat", "strncat"),
    ("strcmp", "strcmp"),
    ("strncmp", "strncmp"),
    ("strcasecmp", "strcasecmp"),
    ("strncasecmp", "strncasecmp"),
    ("strchr", "strchr"),
    ("strchrnul", "strchr"),
    ("strrchr", "strrchr"),
    ("strstr", "strstr"),
    ("strcasestr", "strcasestr"),
    ("memmem", "memmem"),
    ("strspn", "strspn"),
    ("strcspn", "strcspn"),
    ("memccpy", "memccpy"),
    ("wcslen", "wcslen"),
    ("wcschr", "wcschr"),
    ("wmemcmp", "wmemcmp"),
    ("wmemcpy", "memcpy"),
    ("wmemmove", "memcpy"),
    ("wmemset", "wmemset"),
];

/// What libcs put behind a name to tell variants apart: glibc's `__memmove_avx_unaligned_erms`, musl's
/// `__memcpy_fwd_alias_1`.
const VARIANTS: [&str; 30] = [
    "avx",
    "avx2",
    "avx512",
    "evex",
    "evex512",
    "sse2",
    "sse4",
    "sse42",
    "ssse3",
    "unaligned",
    "aligned",
    "erms",
    "rtm",
    "no",
    "vzeroupper",
    "back",
    "generic",
    "chk",
    "impl",
    "l",
    "fwd",
    "alias",
    "1",
    "sve",
    "mops",
    "mte",
    "a64fx",
    "oryon1",
    "zva64",
    "simd",
];

/// A memory function's code, in addresses of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemoryFunction {
    pub(super) code: Range<u64>,
    pub(super) name: &'static str,
}

/// What a function is called in a profile, if it is a memory function.
pub(super) fn canonical(symbol: &str) -> Option<&'static str> {
    let bare = symbol.trim_start_matches('_');
    let bare = bare.strip_prefix("reheap_").unwrap_or(bare);
    let (name, variant) = bare.split_once('_').unwrap_or((bare, ""));
    let mut parts = variant.split('_').filter(|part| !part.is_empty());
    let function = FUNCTIONS.iter().find(|(function, _)| *function == name);
    function
        .filter(|_| parts.all(|part| VARIANTS.contains(&part)))
        .map(|(_, name)| *name)
}

/// Those that the symbols of a file or of its debug file name, in order of address.
pub(super) fn named(module: &Module, elf: &Elf, frames: &Frames) -> Vec<MemoryFunction> {
    let mut found = Vec::new();
    each_function(module, |symbol, address, bytes| {
        let Some(name) = canonical(symbol) else {
            return;
        };
        let end = address.checked_add(bytes).filter(|_| bytes > 0);
        let code = match end {
            Some(end) => Some(address..end),
            // musl's assembly says no sizes.
            None => frames
                .at(address)
                .or_else(|| Flow::of(elf, &[address]).extent(address)),
        };
        found.extend(code.map(|code| MemoryFunction { code, name }));
    });
    sorted(found)
}

/// The words of a file that hold what was chosen for memory functions: where each is, and for which function.
pub(super) fn chosen_words(elf: &Elf) -> Vec<(u64, &'static str)> {
    let choosers = choosers(elf);
    if choosers.is_empty() {
        return Vec::new();
    }
    let relocations = elf
        .sections()
        .iter()
        .filter(|section| section.kind == elf::SHT_RELA);
    let mut words = Vec::new();
    for section in relocations {
        let Some(bytes) = elf.contents(section) else {
            continue;
        };
        let count = bytes.len() / size_of::<elf::Rela64<LE>>();
        let Ok((entries, _)) = pod::slice_from_bytes::<elf::Rela64<LE>>(&bytes, count) else {
            continue;
        };
        let entries = entries.iter().filter(|entry| is_chosen(entry));
        words.extend(entries.filter_map(|entry| {
            let chooser = entry.r_addend.get(LE) as u64;
            let (_, name) = choosers.iter().find(|(address, _)| *address == chooser)?;
            Some((entry.r_offset.get(LE), *name))
        }));
    }
    words
}

fn is_chosen(entry: &elf::Rela64<LE>) -> bool {
    let kind = entry.r_type(LE, false);
    if cfg!(target_arch = "aarch64") {
        kind == elf::R_AARCH64_IRELATIVE
    } else {
        kind == elf::R_X86_64_IRELATIVE
    }
}

/// The functions that choose, with what they choose.
fn choosers(elf: &Elf) -> Vec<(u64, &'static str)> {
    let mut choosers = Vec::new();
    each_dynamic_symbol(elf, |symbol, name| {
        if symbol.st_type() == elf::STT_GNU_IFUNC {
            choosers.extend(canonical(name).map(|name| (symbol.st_value.get(LE), name)));
        }
    });
    choosers
}

/// Whether a file uses symbols of others, as all dynamic programs do.
pub(super) fn imports(elf: &Elf) -> bool {
    let mut imports = false;
    each_dynamic_symbol(elf, |symbol, name| {
        imports |= symbol.st_shndx.get(LE) == elf::SHN_UNDEF && !name.is_empty();
    });
    imports
}

fn each_dynamic_symbol(elf: &Elf, mut look: impl FnMut(&elf::Sym64<LE>, &str)) {
    let sections = elf.sections();
    for section in sections
        .iter()
        .filter(|section| section.kind == elf::SHT_DYNSYM)
    {
        let names = sections.get(section.link as usize);
        let names = names.and_then(|names| elf.contents(names));
        let Some((names, symbols)) = names.zip(elf.contents(section)) else {
            continue;
        };
        let count = symbols.len() / size_of::<elf::Sym64<LE>>();
        let Ok((symbols, _)) = pod::slice_from_bytes::<elf::Sym64<LE>>(&symbols, count) else {
            continue;
        };
        for symbol in symbols {
            let name = names.get(symbol.st_name.get(LE) as usize..);
            let name = name.and_then(|name| name.split(|byte| *byte == 0).next());
            look(
                symbol,
                std::str::from_utf8(name.unwrap_or_default()).unwrap_or_default(),
            );
        }
    }
}

/// What was chosen in a process that has the file `bias` bytes from where it says; nothing if that cannot be read, or was
/// not chosen yet.
pub(super) fn chosen(
    words: &[(u64, &'static str)],
    pid: u32,
    bias: u64,
    frames: &Frames,
) -> Vec<MemoryFunction> {
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else {
        return Vec::new();
    };
    let found = words.iter().filter_map(|(word, name)| {
        let mut bytes = [0; 8];
        memory
            .read_exact_at(&mut bytes, word.wrapping_add(bias))
            .ok()?;
        let function = u64::from_ne_bytes(bytes).wrapping_sub(bias);
        // Before it is filled in, the word leads to the middle of something.
        let code = frames.at(function).filter(|code| code.start == function)?;
        Some(MemoryFunction { code, name })
    });
    sorted(found.collect())
}

fn sorted(mut found: Vec<MemoryFunction>) -> Vec<MemoryFunction> {
    found.sort_by_key(|function| (function.code.start, function.code.end));
    found.dedup_by_key(|function| function.code.start);
    found
}

/// The memory function that an address is in.
pub(super) fn at(functions: &[MemoryFunction], address: u64) -> Option<&'static str> {
    let behind = functions.partition_point(|function| function.code.start <= address);
    let function = functions.get(behind.checked_sub(1)?)?;
    function.code.contains(&address).then_some(function.name)
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn variants_are_memory_functions_and_what_only_begins_like_one_is_not() {
        for (symbol, name) in [
            ("memcpy", "memcpy"),
            ("__memmove_avx512_unaligned_erms", "memcpy"),
            ("__memset_evex_unaligned", "memset"),
            ("__strlen_sse2", "strlen"),
            ("__reheap_memmove", "memcpy"),
            ("__memcpy_fwd_alias_1", "memcpy"),
            ("__strncasecmp_l_avx2_rtm", "strncasecmp"),
            ("__memcpy_chk", "memcpy"),
        ] {
            assert_eq!(canonical(symbol), Some(name), "{symbol}");
        }
        for symbol in [
            "memcpy_row",
            "strlen_utf8",
            "memory",
            "__reheap_mem_level",
            "_",
        ] {
            assert_eq!(canonical(symbol), None, "{symbol}");
        }
    }
}
