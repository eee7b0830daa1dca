//! Walks the frames of copied stacks.
//!
//! framehop does it by the tables that C++ exceptions need and nearly all programs have (`.eh_frame`), else by
//! `.debug_frame`, else by frame pointers. It keeps rules by address, so most frames cost some ten nanoseconds.
//!
//! A walk that goes wrong looks like one that goes right: it yields numbers. So each return address has to be in memory
//! with code, and the stack pointer has to grow with each frame; where it does not, the stack ends.

use super::CodeAddress;
use super::modules::{ModuleId, Modules};
use super::registers::Registers;
use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Unwinder as _};
use reheap_graft::Processor;
use reheap_proc::maps::{self, Mapping};
use std::collections::HashSet;
use std::sync::Arc;

/// Deeper stacks are cut.
pub const FRAMES_MAX: usize = 128;

/// For how many unknown pages one remembers that they are unknown.
const UNKNOWN_PAGES_MAX: usize = 1024;

/// A frame pointer that leads farther above the stack pointer was none: stacks have 8 MiB, unless somebody raises that.
const STACK_BYTES_USUAL: u64 = 8 << 20;

/// aarch64 signs return addresses in bits that addresses do not have: Linux gives programs 48 of them, unless they ask
/// for more.
const AARCH64_ADDRESS_BITS: u64 = (1 << 48) - 1;

/// The frames of one stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The innermost first.
    pub addresses: Vec<CodeAddress>,
    /// Why there are no more.
    pub end: StackEnd,
}

/// Why a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StackEnd {
    /// At the function that nobody called.
    Root,
    /// The copied piece of the stack has no more.
    Truncated,
    /// At [`FRAMES_MAX`].
    TooDeep,
    /// Where neither tables nor frame pointers tell the next frame.
    Lost,
}

/// Unwinds stacks of one process, from one exec to the next.
#[derive(Debug)]
pub struct Unwinder {
    pid: Option<u32>,
    ranges: Vec<CodeRange>,
    unknown_pages: HashSet<u64>,
    engine: Engine,
}

/// A mapping with code.
#[derive(Debug)]
struct CodeRange {
    mapping: Mapping,
    module: ModuleId,
    /// What an address in the file is lower than in memory; 0 where there is no file.
    bias: u64,
    /// The first address of the module, in the file's terms.
    base: u64,
    /// Whether framehop knows it. Its tables are read when the first stack needs them.
    known: bool,
}

impl Unwinder {
    /// Of a process that runs.
    pub fn new(modules: &mut Modules, pid: u32) -> Self {
        let mut unwinder = Self::empty(Processor::native(), Some(pid));
        unwinder.refresh(modules);
        unwinder
    }

    /// Of a process that may be gone or may have executed another program, with what its `/proc/PID/maps` said. If it
    /// still runs, its number helps to find its files, and what it has mapped since.
    pub fn from_maps(
        modules: &mut Modules,
        processor: Processor,
        maps: &[u8],
        pid: Option<u32>,
    ) -> Self {
        Self::from_mappings(modules, processor, maps::parse(maps), pid)
    }

    /// Of a process that may be gone, with its mappings in order of address.
    pub(crate) fn from_mappings(
        modules: &mut Modules,
        processor: Processor,
        mappings: Vec<Mapping>,
        pid: Option<u32>,
    ) -> Self {
        let mut unwinder = Self::empty(processor, pid);
        unwinder.update(modules, mappings);
        unwinder
    }

    fn empty(processor: Processor, pid: Option<u32>) -> Self {
        Self {
            pid,
            ranges: Vec::new(),
            unknown_pages: HashSet::new(),
            engine: Engine::new(processor),
        }
    }

    /// Reads again what is mapped. It happens by itself when a stack has an unknown address, as after dlopen.
    pub fn refresh(&mut self, modules: &mut Modules) {
        let Some(pid) = self.pid else { return };
        let Ok(text) = std::fs::read(format!("/proc/{pid}/maps")) else {
            return;
        };
        let mappings = maps::parse(&text);
        // A process that ended and was not waited for has none. One that executed another program has others. In both
        // cases there may be samples from before.
        let of_a_file = |range: &&CodeRange| range.mapping.inode != 0;
        let is_there = |before: &Mapping| mappings.iter().any(|mapping| mapping.is_still(before));
        let mut before = self.ranges.iter().filter(of_a_file).peekable();
        if before.peek().is_none() || before.any(|range| is_there(&range.mapping)) {
            self.update(modules, mappings);
        }
    }

    fn update(&mut self, modules: &mut Modules, mappings: Vec<Mapping>) {
        let mut before = std::mem::take(&mut self.ranges);
        for mapping in mappings.into_iter().filter(|mapping| mapping.is_executable) {
            let same = before
                .iter()
                .position(|range| mapping.is_still(&range.mapping));
            let range = match same {
                Some(at) => before.swap_remove(at),
                None => CodeRange::new(modules, mapping, self.pid),
            };
            self.ranges.push(range);
        }
        for gone in before.iter().filter(|range| range.known) {
            self.engine.forget(gone.mapping.start);
        }
        self.unknown_pages.clear();
    }

    /// The frames of a stack, from the registers of the hook's caller and the bytes at its stack pointer and above.
    pub fn unwind(&mut self, modules: &mut Modules, registers: &Registers, stack: &[u8]) -> Stack {
        let walk = Walk::new(&self.engine, registers, stack);
        self.walk(modules, walk)
    }

    /// The stack of a thread that was interrupted at any instruction, from its registers.
    pub fn unwind_interrupted(
        &mut self,
        modules: &mut Modules,
        registers: &Registers,
        stack: &[u8],
    ) -> Stack {
        let mut walk = Walk::new(&self.engine, registers, stack);
        walk.address = FrameAddress::from_instruction_pointer(registers.program_counter);
        self.walk(modules, walk)
    }

    fn walk(&mut self, modules: &mut Modules, mut walk: Walk<'_>) -> Stack {
        let mut addresses = Vec::with_capacity(32);
        let end = loop {
            let Some(range) = self.range_of(modules, walk.address.address_for_lookup()) else {
                break if walk.ran_out {
                    StackEnd::Truncated
                } else {
                    StackEnd::Lost
                };
            };
            addresses.push(self.ranges[range].code_address(walk.address));
            if addresses.len() == FRAMES_MAX {
                break StackEnd::TooDeep;
            }
            if let Some(interrupted) = walk.interrupted()
                && self.ranges[range].returns_from_signal(modules, walk.address)
            {
                walk.resume(&interrupted);
                continue;
            }
            self.teach(modules, range);
            if let Err(end) = walk.step(&mut self.engine) {
                break end;
            }
        };
        Stack { addresses, end }
    }

    /// Where an instruction is, such as that which a timer interrupted; `None` if no code is there.
    pub fn locate(&mut self, modules: &mut Modules, address: u64) -> Option<CodeAddress> {
        let range = self.range_of(modules, address)?;
        Some(self.ranges[range].code_address(FrameAddress::from_instruction_pointer(address)))
    }

    fn range_of(&mut self, modules: &mut Modules, address: u64) -> Option<usize> {
        if let Some(range) = self.find(address) {
            return Some(range);
        }
        let page = address / 4096;
        if self.unknown_pages.contains(&page) {
            return None;
        }
        self.refresh(modules);
        let range = self.find(address);
        if range.is_none() && self.unknown_pages.len() < UNKNOWN_PAGES_MAX {
            self.unknown_pages.insert(page);
        }
        range
    }

    fn find(&self, address: u64) -> Option<usize> {
        let behind = self
            .ranges
            .partition_point(|range| range.mapping.start <= address);
        let range = behind.checked_sub(1)?;
        (address < self.ranges[range].mapping.end).then_some(range)
    }

    fn teach(&mut self, modules: &Modules, range: usize) {
        let range = &mut self.ranges[range];
        if !range.known {
            range.known = true;
            self.engine.learn(range, modules);
        }
    }
}

impl CodeRange {
    fn new(modules: &mut Modules, mapping: Mapping, pid: Option<u32>) -> Self {
        let module = modules.of(&mapping, pid);
        let elf = modules.get(module).elf.as_ref();
        let (bias, base) = elf
            .and_then(|elf| {
                Some((
                    elf.bias(mapping.start, mapping.offset)?,
                    elf.first_address(),
                ))
            })
            // Offsets in a file that cannot be read are those of its bytes.
            .unwrap_or((
                if mapping.inode == 0 {
                    0
                } else {
                    mapping.start.wrapping_sub(mapping.offset)
                },
                0,
            ));
        Self {
            mapping,
            module,
            bias,
            base,
            known: false,
        }
    }

    fn code_address(&self, address: FrameAddress) -> CodeAddress {
        CodeAddress {
            module: self.module,
            offset: self.in_file(address).wrapping_sub(self.base),
            is_return_address: address.is_return_address(),
        }
    }

    fn in_file(&self, address: FrameAddress) -> u64 {
        address.address().wrapping_sub(self.bias)
    }

    /// Whether the code there is what libcs give the kernel as the return address of signal handlers (`SA_RESTORER`).
    /// GDB recognizes it by its bytes, too: not all libcs describe it, and framehop cannot follow the description.
    fn returns_from_signal(&self, modules: &Modules, address: FrameAddress) -> bool {
        const RT_SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05]; // mov $15, %rax; syscall
        let elf = modules.get(self.module).elf.as_ref();
        elf.and_then(|elf| elf.code(self.in_file(address), RT_SIGRETURN.len() as u64))
            .is_some_and(|code| code == RT_SIGRETURN)
    }
}

type Sections = Arc<[u8]>;

/// framehop for one processor, with the rules that it found.
enum Engine {
    X86_64(UnwinderX86_64<Sections>, CacheX86_64),
    Aarch64(UnwinderAarch64<Sections>, CacheAarch64),
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Engine::X86_64(..) => "X86_64",
            Engine::Aarch64(..) => "Aarch64",
        })
    }
}

impl Engine {
    fn new(processor: Processor) -> Self {
        match processor {
            Processor::X86_64 => Engine::X86_64(UnwinderX86_64::new(), CacheX86_64::new()),
            Processor::Aarch64 => Engine::Aarch64(UnwinderAarch64::new(), CacheAarch64::new()),
        }
    }

    fn processor(&self) -> Processor {
        match self {
            Engine::X86_64(..) => Processor::X86_64,
            Engine::Aarch64(..) => Processor::Aarch64,
        }
    }

    fn learn(&mut self, range: &CodeRange, modules: &Modules) {
        let Some(elf) = modules.get(range.module).elf.as_ref() else {
            return;
        };
        let base = range.bias.wrapping_add(range.base);
        if elf.processor() != self.processor() || base > range.mapping.start {
            return;
        }
        let module = framehop::Module::new(
            String::new(),
            range.mapping.start..range.mapping.end,
            base,
            elf.unwind_sections().clone(),
        );
        match self {
            Engine::X86_64(unwinder, _) => unwinder.add_module(module),
            Engine::Aarch64(unwinder, _) => unwinder.add_module(module),
        }
    }

    fn forget(&mut self, start: u64) {
        match self {
            Engine::X86_64(unwinder, _) => unwinder.remove_module(start),
            Engine::Aarch64(unwinder, _) => unwinder.remove_module(start),
        }
    }
}

/// Where a walk is.
struct Walk<'a> {
    address: FrameAddress,
    frame: Frame,
    stack: StackCopy<'a>,
    /// Whether something above the copy was asked for.
    ran_out: bool,
}

enum Frame {
    X86_64(UnwindRegsX86_64),
    Aarch64(UnwindRegsAarch64),
}

#[derive(Clone, Copy)]
struct StackCopy<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl StackCopy<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let word = self.bytes.get(offset..offset.checked_add(8)?)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }

    /// Whether an address may be of the part of the stack that was not copied.
    fn is_above(&self, address: u64) -> bool {
        address >= self.start && address - self.start < STACK_BYTES_USUAL
    }
}

impl<'a> Walk<'a> {
    fn new(engine: &Engine, registers: &Registers, bytes: &'a [u8]) -> Self {
        let &Registers {
            program_counter,
            stack_pointer,
            frame_pointer,
        } = registers;
        let (address, frame) = match engine.processor() {
            Processor::X86_64 => (
                program_counter,
                Frame::X86_64(UnwindRegsX86_64::new(
                    program_counter,
                    stack_pointer,
                    frame_pointer,
                )),
            ),
            Processor::Aarch64 => (
                program_counter & AARCH64_ADDRESS_BITS,
                Frame::Aarch64(UnwindRegsAarch64::new_with_ptr_auth_mask(
                    PtrAuthMask(AARCH64_ADDRESS_BITS),
                    program_counter,
                    stack_pointer,
                    frame_pointer,
                )),
            ),
        };
        Self {
            address: FrameAddress::from_return_address(address)
                .unwrap_or(FrameAddress::InstructionPointer(0)),
            frame,
            stack: StackCopy {
                start: stack_pointer,
                bytes,
            },
            ran_out: false,
        }
    }

    /// Goes to the caller's frame.
    fn step(&mut self, engine: &mut Engine) -> Result<(), StackEnd> {
        let stack_pointer = self.stack_pointer();
        let (stack, ran_out) = (self.stack, &mut self.ran_out);
        let mut read = |address: u64| {
            let word = stack.word(address);
            *ran_out |= word.is_none() && stack.is_above(address);
            word.ok_or(())
        };
        let caller = match (&mut self.frame, engine) {
            (Frame::X86_64(registers), Engine::X86_64(unwinder, cache)) => {
                unwinder.unwind_frame(self.address, registers, cache, &mut read)
            }
            (Frame::Aarch64(registers), Engine::Aarch64(unwinder, cache)) => {
                unwinder.unwind_frame(self.address, registers, cache, &mut read)
            }
            _ => unreachable!("the walk was made for this engine"),
        };
        match caller {
            Ok(caller) => {
                let caller = caller
                    .and_then(FrameAddress::from_return_address)
                    .ok_or(StackEnd::Root)?;
                if self.stack_pointer() <= stack_pointer && self.address.is_return_address() {
                    return Err(StackEnd::Lost);
                }
                self.address = caller;
                Ok(())
            }
            Err(_) if self.ran_out => Err(StackEnd::Truncated),
            Err(_) => Err(StackEnd::Lost),
        }
    }

    /// The registers that a signal interrupted, if this may be where its handler returns to: the kernel puts a `struct
    /// ucontext` there (Linux, arch/x86/include/uapi/asm/sigcontext.h). Its first words are flags and a null pointer.
    fn interrupted(&self) -> Option<Registers> {
        const FLAGS_MAX: u64 = 7;
        const GENERAL_REGISTERS: u64 = 40;
        let Frame::X86_64(registers) = &self.frame else {
            return None; // aarch64's handlers have a frame record, and framehop follows that
        };
        let start = registers.sp();
        let word = |at: u64| self.stack.word(start.checked_add(at)?);
        let register = |number: u64| word(GENERAL_REGISTERS + 8 * number);
        (word(0)? <= FLAGS_MAX && word(8)? == 0).then_some(())?;
        Some(Registers {
            frame_pointer: register(10)?,
            stack_pointer: register(15)?,
            program_counter: register(16)?,
        })
    }

    /// Goes on with what was interrupted. It may be on another stack (sigaltstack), of which there is no copy.
    fn resume(&mut self, interrupted: &Registers) {
        self.address = FrameAddress::from_instruction_pointer(interrupted.program_counter);
        self.frame = Frame::X86_64(UnwindRegsX86_64::new(
            interrupted.program_counter,
            interrupted.stack_pointer,
            interrupted.frame_pointer,
        ));
    }

    fn stack_pointer(&self) -> u64 {
        match &self.frame {
            Frame::X86_64(registers) => registers.sp(),
            Frame::Aarch64(registers) => registers.sp(),
        }
    }
}
