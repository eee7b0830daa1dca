//! The records that the kernel writes into a ring (perf_event_open(2), "MMAP layout"), as values.

use crate::stacks::Registers;
use reheap_proc::maps::Mapping;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// What is asked for in each sample, in the order in which it is written.
pub(super) const SAMPLE_TYPE: u64 = IP | TID | TIME | REGISTERS | STACK;
/// What is asked for in each sample when the kernel is sampled too: also which of its functions called each other.
pub(super) const SAMPLE_TYPE_WITH_KERNEL: u64 = SAMPLE_TYPE | CALL_CHAIN;

const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const CALL_CHAIN: u64 = 1 << 5;
const REGISTERS: u64 = 1 << 12;
const STACK: u64 = 1 << 13;

/// The registers that are asked for: frame pointer, stack pointer, program counter, in this order on both machines
/// (arch/x86/include/uapi/asm/perf_regs.h, arch/arm64/include/uapi/asm/perf_regs.h).
pub(super) const REGISTERS_ASKED: u64 = if cfg!(target_arch = "aarch64") {
    1 << 29 | 1 << 31 | 1 << 32
} else {
    1 << 6 | 1 << 7 | 1 << 8
};

/// `PERF_CONTEXT_MAX`: what is not below this in a call chain is no address.
const NO_ADDRESS: u64 = (-4095_i64) as u64;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    Sample(Sample),
    /// Memory with code was mapped.
    Mapped {
        pid: u32,
        mapping: Mapping,
    },
    Forked {
        pid: u32,
        parent: u32,
    },
    /// A further thread of a process begins.
    ThreadBegan {
        pid: u32,
    },
    /// A thread has ended, the first one of its process or another. It has no samples after this.
    ThreadEnded {
        pid: u32,
    },
    Executed {
        pid: u32,
    },
    /// So many records found no room in the ring.
    Lost(u64),
}

/// Where a thread was after another period of CPU time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) pid: u32,
    pub(super) in_kernel: bool,
    /// The kernel's functions, the innermost first.
    pub(super) kernel: Vec<u64>,
    /// Of the program; `None` of a thread of 32 bits.
    pub(super) registers: Option<Registers>,
    /// What is at its stack pointer and above.
    pub(super) stack: Vec<u8>,
}

/// The records in these bytes, each with its time. What does not have the right form is left out.
pub(super) fn parse(mut bytes: &[u8], sample_type: u64) -> Vec<(u64, Record)> {
    let mut records = Vec::new();
    while let Some((header, rest)) = bytes.split_at_checked(8) {
        let kind = u32::from_ne_bytes(std::array::from_fn(|i| header[i]));
        let misc = u16::from_ne_bytes([header[4], header[5]]);
        let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let Some((body, behind)) = size
            .checked_sub(8)
            .and_then(|size| rest.split_at_checked(size))
        else {
            break;
        };
        records.extend(record(kind, misc, body, sample_type));
        bytes = behind;
    }
    records
}

fn record(kind: u32, misc: u16, body: &[u8], sample_type: u64) -> Option<(u64, Record)> {
    const LOST: u32 = 2;
    const COMM: u32 = 3;
    const EXIT: u32 = 4;
    const FORK: u32 = 7;
    const SAMPLE: u32 = 9;
    const MMAP2: u32 = 10;
    const BY_EXEC: u16 = 1 << 13;
    if kind == SAMPLE {
        return sample(misc, body, sample_type);
    }
    let mut fields = Fields(body);
    if kind == LOST {
        let (_event, lost) = (fields.word()?, fields.word()?);
        return Some((0, Record::Lost(lost)));
    }
    let (pid, second) = fields.halves()?;
    let record = match kind {
        COMM if misc & BY_EXEC != 0 => Record::Executed { pid },
        FORK if pid == second => Record::ThreadBegan { pid },
        FORK => Record::Forked {
            pid,
            parent: second,
        },
        EXIT => Record::ThreadEnded { pid },
        MMAP2 => Record::Mapped {
            pid,
            mapping: mapping(&mut fields)?,
        },
        _ => return None,
    };
    // `sample_id_all` puts the time behind each record.
    let (_, time) = body.split_last_chunk::<8>()?;
    Some((u64::from_ne_bytes(*time), record))
}

fn mapping(fields: &mut Fields<'_>) -> Option<Mapping> {
    let (start, bytes, offset) = (fields.word()?, fields.word()?, fields.word()?);
    let (_device, inode, _generation) = (fields.word()?, fields.word()?, fields.word()?);
    let _protection = fields.word()?;
    let name = fields.0.split(|byte| *byte == 0).next()?;
    let path = match name {
        b"//anon" => PathBuf::new(),
        name => PathBuf::from(OsStr::from_bytes(name)),
    };
    Some(Mapping {
        start,
        end: start.checked_add(bytes)?,
        is_executable: true,
        offset,
        inode,
        path,
        ..Mapping::default()
    })
}

fn sample(misc: u16, body: &[u8], sample_type: u64) -> Option<(u64, Record)> {
    const CPU_MODE: u16 = 7;
    const KERNEL: u16 = 1;
    const BITS_64: u64 = 2;
    let mut fields = Fields(body);
    let ip = fields.word()?;
    let (pid, _tid) = fields.halves()?;
    let time = fields.word()?;
    let in_kernel = misc & CPU_MODE == KERNEL;
    let mut kernel = vec![ip];
    if sample_type & CALL_CHAIN != 0 {
        for _ in 0..fields.word()? {
            kernel.push(fields.word()?);
        }
    }
    kernel.retain(|address| in_kernel && *address < NO_ADDRESS);
    let abi = fields.word()?;
    let mut registers = None;
    if abi != 0 {
        let (frame_pointer, stack_pointer) = (fields.word()?, fields.word()?);
        registers = (abi == BITS_64).then_some(Registers {
            program_counter: fields.word()?,
            stack_pointer,
            frame_pointer,
        });
    }
    let room = usize::try_from(fields.word()?).ok()?;
    let mut stack = Vec::new();
    if room > 0 {
        let copied = fields.0.get(..room)?;
        fields.0 = &fields.0[room..];
        let filled = usize::try_from(fields.word()?).ok()?;
        stack = copied.get(..filled)?.to_vec();
    }
    let sample = Sample {
        pid,
        in_kernel,
        kernel,
        registers,
        stack,
    };
    Some((time, Record::Sample(sample)))
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }

    /// Two numbers of four bytes.
    fn halves(&mut self) -> Option<(u32, u32)> {
        let word = self.word()?.to_ne_bytes();
        let half = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| word[at + i]));
        Some((half(0), half(4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_a_program_has_its_registers_and_the_filled_part_of_its_stack() {
        let words: [u64; 11] = [0x4000, 7 | 8 << 32, 99, 2, 30, 20, 0x4000, 16, 1, 2, 8];
        let mut bytes = Vec::new();
        let size = 8 + 8 * words.len() as u64;
        bytes.extend_from_slice(&(9 | 2 << 32 | size << 48).to_ne_bytes());
        words
            .iter()
            .for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
        let [(99, Record::Sample(sample))] = &parse(&bytes, SAMPLE_TYPE)[..] else {
            panic!("one sample");
        };
        assert_eq!((sample.pid, sample.in_kernel), (7, false));
        assert_eq!(sample.registers, Some(Registers::parse([0x4000, 20, 30])));
        assert_eq!(sample.stack, 1_u64.to_ne_bytes());
        assert_eq!(parse(&bytes[..bytes.len() - 1], SAMPLE_TYPE), []);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_parser_fail(bytes: Vec<u8>) {
            parse(&bytes, SAMPLE_TYPE_WITH_KERNEL);
        }
    }
}
