//! Where the threads of one process were at each sample.

use super::code::Code;
use super::faults::Faults;
use super::record::Sample;
use super::{Hooks, Tally};
use crate::stacks::{CodeAddress, ModuleId, Modules, Registers, Unwinder};
use reheap_proc::maps::{self, Mapping};
use std::collections::{BTreeMap, HashMap};

/// More functions do not call each other in an allocator.
const CALLS_MAX: usize = 64;

/// The files of all processes.
#[derive(Debug, Default)]
pub(super) struct Files {
    modules: Modules,
    codes: HashMap<ModuleId, Code>,
}

/// One process.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// What is known of its mappings with code, by their first addresses: a process may be gone when its samples are read.
    /// The kernel does not tell what is taken away, but what is put in its place.
    maps: BTreeMap<u64, Mapping>,
    threads: usize,
    unwinder: Option<Unwinder>,
    pub(super) tally: Tally,
}

/// Where a thread was.
enum Place {
    Hooks,
    Allocator,
    Memory(&'static str),
    /// In memory functions or not: nothing names them.
    Hidden,
    Elsewhere,
    /// In the allocator or not: nothing tells.
    Unknown,
}

impl Process {
    /// One that has these mappings and so many threads already.
    pub(super) fn begun(mappings: Vec<Mapping>, threads: usize) -> Self {
        let mappings = mappings.into_iter().filter(|mapping| mapping.is_executable);
        Self {
            maps: mappings.map(|mapping| (mapping.start, mapping)).collect(),
            threads,
            ..Self::default()
        }
    }

    /// A child has what its parent had, and one thread.
    pub(super) fn forked(&self) -> Self {
        Self {
            maps: self.maps.clone(),
            threads: 1,
            ..Self::default()
        }
    }

    pub(super) fn thread_began(&mut self) {
        self.threads += 1;
    }

    /// Forgets all but the tally, if it was the last one.
    pub(super) fn thread_ended(&mut self) {
        self.threads = self.threads.saturating_sub(1);
        if self.has_ended() {
            self.maps = BTreeMap::new();
            self.unwinder = None;
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.threads == 0
    }

    /// Another program begins in it.
    pub(super) fn executed(&mut self) {
        self.maps.clear();
        self.threads = 1;
        self.unwinder = None;
    }

    pub(super) fn mapped(&mut self, mapping: Mapping) {
        let (start, end) = (mapping.start, mapping.end);
        let until = self.maps.range(..end).rev();
        let under: Vec<Mapping> = until
            .take_while(|(_, before)| before.end > start)
            .map(|(_, before)| before.clone())
            .collect();
        for before in under {
            self.maps.remove(&before.start);
            if before.end > end {
                let mut rest = before.clone();
                rest.offset = before.offset.wrapping_add(end - before.start);
                rest.start = end;
                self.maps.insert(end, rest);
            }
            if before.start < start {
                let end = start;
                self.maps.insert(before.start, Mapping { end, ..before });
            }
        }
        self.maps.insert(start, mapping);
        // It looked at what was mapped before, and the process may be gone when it looks again.
        self.unwinder = None;
    }

    pub(super) fn count(
        &mut self,
        files: &mut Files,
        hooks: &Hooks,
        faults: Option<&Faults>,
        pid: u32,
        sample: &Sample,
    ) {
        let place = match &sample.registers {
            Some(registers) => self.place(files, hooks, pid, registers, &sample.stack),
            None => Place::Elsewhere,
        };
        let tally = &mut self.tally;
        match place {
            Place::Hooks => {
                tally.hooks += 1;
                return;
            }
            Place::Unknown => tally.unknown += 1,
            Place::Allocator => {
                tally.allocator += 1;
                tally.kernel_for_allocator += u64::from(sample.in_kernel);
            }
            Place::Memory(name) if !sample.in_kernel => {
                *tally.memory_functions.entry(name.to_owned()).or_default() += 1;
            }
            Place::Hidden if !sample.in_kernel => tally.hidden += 1,
            Place::Memory(_) | Place::Hidden | Place::Elsewhere => {}
        }
        tally.samples += 1;
        if sample.in_kernel {
            tally.kernel += 1;
            tally.faults += u64::from(faults.is_some_and(|faults| faults.serve(&sample.kernel)));
        }
    }

    fn place(
        &mut self,
        files: &mut Files,
        hooks: &Hooks,
        pid: u32,
        registers: &Registers,
        stack: &[u8],
    ) -> Place {
        let unwinder = self
            .unwinder
            .get_or_insert_with(|| unwinder(&mut files.modules, pid, &self.maps));
        let Some(here) = unwinder.locate(&mut files.modules, registers.program_counter) else {
            return Place::Elsewhere;
        };
        if hooks.has(&files.modules, here) {
            return Place::Hooks;
        }
        let (in_file, bias) = files.place(here, registers.program_counter);
        let code = files.code(here.module, hooks, bias);
        code.look_into(pid, bias);
        let hides = code.hides_memory_functions();
        let name = code.memory_function(in_file);
        match self.is_in_allocator(files, hooks, registers, stack) {
            Some(true) => Place::Allocator,
            None => Place::Unknown,
            Some(false) if hides => Place::Hidden,
            Some(false) => name.map_or(Place::Elsewhere, Place::Memory),
        }
    }

    /// Whether a hook called what runs, which is what the hooks do with the allocator only. `None` where that cannot be
    /// told.
    fn is_in_allocator(
        &mut self,
        files: &mut Files,
        hooks: &Hooks,
        registers: &Registers,
        stack: &[u8],
    ) -> Option<bool> {
        let unwinder = self.unwinder.as_mut()?;
        let mut at = *registers;
        for call in 0..CALLS_MAX {
            let Some(here) = unwinder.locate(&mut files.modules, at.program_counter) else {
                return Some(false);
            };
            if hooks.has(&files.modules, here) {
                return Some(true);
            }
            let (in_file, bias) = files.place(here, at.program_counter);
            let code = files.code(here.module, hooks, bias);
            let skipped = usize::try_from(at.stack_pointer - registers.stack_pointer).ok()?;
            let rest = stack.get(skipped..).unwrap_or_default();
            // The call may be the last instruction of a function.
            if code.has_tables(in_file.wrapping_sub(u64::from(call > 0))) {
                let stack = match call {
                    0 => unwinder.unwind_interrupted(&mut files.modules, &at, rest),
                    _ => unwinder.unwind(&mut files.modules, &at, rest),
                };
                let mut callers = stack.addresses.iter();
                return Some(callers.any(|caller| hooks.has(&files.modules, *caller)));
            }
            if !code.is_readable() {
                return None;
            }
            let Some(depth) = code.depth(in_file) else {
                return Some(false);
            };
            let depth = usize::try_from(depth).ok()?;
            let Some(caller) = rest.get(depth..).and_then(|rest| rest.first_chunk::<8>()) else {
                return Some(false);
            };
            at.program_counter = u64::from_le_bytes(*caller);
            at.stack_pointer += depth as u64 + 8;
        }
        Some(false)
    }
}

fn unwinder(modules: &mut Modules, pid: u32, told: &BTreeMap<u64, Mapping>) -> Unwinder {
    let mut mappings = maps::parse(&std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default());
    if mappings.is_empty() {
        mappings = told.values().cloned().collect();
    }
    Unwinder::from_mappings(
        modules,
        reheap_graft::Processor::native(),
        mappings,
        Some(pid),
    )
}

impl Files {
    /// The address in the file, and how far from there it is in memory.
    fn place(&self, here: CodeAddress, address: u64) -> (u64, u64) {
        let elf = self.modules.get(here.module).elf.as_ref();
        let first = elf.map_or(0, |elf| elf.first_address());
        let in_file = first.wrapping_add(here.offset);
        (in_file, address.wrapping_sub(in_file))
    }

    fn code(&mut self, module: ModuleId, hooks: &Hooks, bias: u64) -> &mut Code {
        let modules = &self.modules;
        let code = self
            .codes
            .entry(module)
            .or_insert_with(|| Code::of(modules.get(module)));
        let hooked = hooks.functions.iter();
        let in_file: Vec<u64> = hooked.map(|address| address.wrapping_sub(bias)).collect();
        code.begin_at(&in_file);
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn mapping(start: u64, end: u64, offset: u64) -> Mapping {
        Mapping {
            start,
            end,
            is_executable: true,
            offset,
            inode: 1,
            path: PathBuf::from("/a"),
            ..Mapping::default()
        }
    }

    #[test]
    fn what_is_mapped_takes_the_place_of_what_was_there() {
        let mut process = Process::default();
        process.mapped(mapping(0x1000, 0x9000, 0));
        process.mapped(mapping(0x20000, 0x21000, 0));
        process.mapped(mapping(0x3000, 0x5000, 7));
        // All of one, and the ends of two.
        process.mapped(mapping(0x2000, 0x6000, 8));
        // JIT compilers make the same memory executable again and again.
        for _ in 0..100_000 {
            process.mapped(mapping(0x20000, 0x21000, 9));
        }
        let maps: Vec<_> = process.maps.into_values().collect();
        let expected = [
            mapping(0x1000, 0x2000, 0),
            mapping(0x2000, 0x6000, 8),
            mapping(0x6000, 0x9000, 0x5000),
            mapping(0x20000, 0x21000, 9),
        ];
        assert_eq!(maps, expected);
    }
}
