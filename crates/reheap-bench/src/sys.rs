//! The launcher: an executable of some hundred bytes that starts a command and waits for it.
//!
//! `wait4` says how much memory a process had at its peak, but Linux lets `execve` take the peak of the process image
//! that it replaces along: a command that is started by a program of 300 MiB never shows less than 300 MiB. So the
//! command has to be started by something smaller than any command, and even a program that prints one line is 2 MiB
//! with a dynamic libc. Hence machine code, in an ELF file that is made here and executed from memory: two pages.
//!
//! Rejected: `VmHWM` at exit, because it takes ptrace to be there in time, which slows signals down and misses the
//! processes that the command starts; `sh`, which is larger than what reheap measures; a second program beside reheap,
//! which gets lost. The launcher also reads the clock, so its own start is not in the wall time.
//!
//! Protocol, all in the launcher's arguments and its standard input:
//!
//! - `argv[1]` is the file that the command gets as standard input, `argv[2]` the path of the program, and the
//!   command's arguments begin at `argv[2]`.
//! - Standard input is the report, a file that is written from its beginning; [`Report`] says what stands where.
//!
//! To add an architecture: a second `global_asm!` with the same two symbols, and its name in the two `cfg`s.

// `global_asm!` and the slice over the two symbols that it defines; see the comment at each.
#![allow(unsafe_code)]

use std::time::Duration;

#[cfg(target_arch = "x86_64")]
// Safety: this is data. Nothing in this process jumps there, and the bytes stand in a section of read-only data.
std::arch::global_asm!(
    ".pushsection .rodata.reheap_launcher,\"a\",@progbits",
    ".set reheap_launcher_base, 0x400000",
    ".balign 16",
    "reheap_launcher_start:",
    // The ELF header (System V ABI, "Object Files").
    ".byte 0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0", // ELF, 64 bits, little endian, version 1
    ".2byte 2, 62",                                                     // ET_EXEC, EM_X86_64
    ".4byte 1",
    ".8byte reheap_launcher_base + (60f - reheap_launcher_start)", // where it starts
    ".8byte 64, 0", // program headers, no section headers
    ".4byte 0",
    ".2byte 64, 56, 2, 0, 0, 0",
    // PT_LOAD, readable and executable: the whole file.
    ".4byte 1, 5",
    ".8byte 0, reheap_launcher_base, reheap_launcher_base",
    ".8byte reheap_launcher_end - reheap_launcher_start, reheap_launcher_end - reheap_launcher_start, 0x1000",
    // PT_GNU_STACK, readable and writable: the stack is not executable.
    ".4byte 0x6474e551, 6",
    ".8byte 0, 0, 0, 0, 0, 16",
    // Start: the stack holds argc, the arguments, a null, the environment.
    "60: mov r12, rsp",
    "sub rsp, 256", // the report; `Report` says what stands where
    "mov eax, 228", // clock_gettime(CLOCK_MONOTONIC, report.started)
    "mov edi, 1",
    "lea rsi, [rsp + 8]",
    "syscall",
    "mov eax, 57", // fork
    "syscall",
    "test eax, eax",
    "js 40f",
    "jz 30f",
    "mov r13d, eax",
    // In the launcher: wait4(child, report.status, 0, report.rusage), again when a signal interrupted it.
    "20: mov eax, 61",
    "mov edi, r13d",
    "lea rsi, [rsp + 40]",
    "xor edx, edx",
    "lea r10, [rsp + 48]",
    "syscall",
    "cmp eax, -4", // EINTR
    "je 20b",
    "test eax, eax",
    "js 40f",
    "mov eax, 228", // clock_gettime(CLOCK_MONOTONIC, report.ended)
    "mov edi, 1",
    "lea rsi, [rsp + 24]",
    "syscall",
    "mov eax, 18", // pwrite64(0, report + 8, 184, 8)
    "xor edi, edi",
    "lea rsi, [rsp + 8]",
    "mov edx, 184",
    "mov r10d, 8",
    "syscall",
    "cmp eax, 184",
    "jne 40f",
    "mov eax, 231", // exit_group(0)
    "xor edi, edi",
    "syscall",
    // In the child: keep the report at another descriptor, fcntl(0, F_DUPFD_CLOEXEC, 3).
    "30: mov eax, 72",
    "xor edi, edi",
    "mov esi, 1030",
    "mov edx, 3",
    "syscall",
    "mov r14, rax",
    "test eax, eax",
    "js 35f",
    "mov eax, 3", // close(0)
    "xor edi, edi",
    "syscall",
    "mov eax, 2", // open(argv[1], O_RDONLY): the lowest free descriptor, which is 0
    "mov rdi, [r12 + 16]",
    "xor esi, esi",
    "xor edx, edx",
    "syscall",
    "test eax, eax",
    "js 35f",
    "mov eax, 59", // execve(argv[2], argv + 2, environment)
    "mov rdi, [r12 + 24]",
    "lea rsi, [r12 + 24]",
    "mov rdx, [r12]",
    "lea rdx, [r12 + rdx * 8 + 16]",
    "syscall",
    // Still here: the negative error code is the report's first word.
    "35: mov [rsp], rax",
    "mov eax, 18", // pwrite64(report, the error code, 8, 0)
    "mov rdi, r14",
    "mov rsi, rsp",
    "mov edx, 8",
    "xor r10d, r10d",
    "syscall",
    "mov edi, 127",
    "jmp 50f",
    "40: mov edi, 1",
    "50: mov eax, 231", // exit_group
    "syscall",
    "reheap_launcher_end:",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    #[link_name = "reheap_launcher_start"]
    static LAUNCHER_START: u8;
    #[link_name = "reheap_launcher_end"]
    static LAUNCHER_END: u8;
}

/// The launcher as an executable file, or nothing where there is none for this architecture.
#[cfg(target_arch = "x86_64")]
pub(crate) fn launcher() -> Option<&'static [u8]> {
    let (start, end) = (&raw const LAUNCHER_START, &raw const LAUNCHER_END);
    // Safety: both symbols stand in one section, the end behind the start, because the `global_asm!` above emits them
    // in this order between `.pushsection` and `.popsection`; the bytes between are read-only data that is never freed.
    Some(unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) })
}

/// The launcher as an executable file, or nothing where there is none for this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn launcher() -> Option<&'static [u8]> {
    None
}

/// What the launcher writes: one array of eight-byte words.
///
/// | bytes | content |
/// | --- | --- |
/// | 0..8 | the negative error code if the command could not be started, else 0 |
/// | 8..24, 24..40 | `struct timespec` of the monotonic clock, before the start and after the end |
/// | 40..44 | the wait status |
/// | 48..192 | `struct rusage` as the kernel lays it out: 18 words |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) exec_error: i32,
    pub(crate) wall: Duration,
    pub(crate) wait_status: i32,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) peak_rss_kib: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) voluntary_context_switches: u64,
    pub(crate) involuntary_context_switches: u64,
}

impl Report {
    pub(crate) const BYTES: usize = 192;

    pub(crate) fn parse(bytes: &[u8; Report::BYTES]) -> Report {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |offset_bytes: usize| u64::from_le_bytes(words[offset_bytes / 8]);
        let clock = |offset_bytes| Duration::new(word(offset_bytes), word(offset_bytes + 8) as u32);
        let cpu = |offset_bytes| {
            Duration::from_secs(word(offset_bytes)) + Duration::from_micros(word(offset_bytes + 8))
        };
        Report {
            exec_error: -(word(0) as i64 as i32),
            wall: clock(24).saturating_sub(clock(8)),
            wait_status: word(40) as u32 as i32,
            user: cpu(48),
            system: cpu(64),
            peak_rss_kib: word(80),
            minor_faults: word(112),
            major_faults: word(120),
            voluntary_context_switches: word(176),
            involuntary_context_switches: word(184),
        }
    }
}
