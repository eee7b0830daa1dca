//! What is known of the code in a file: its memory functions, and how its stacks are unwound.

use super::flow::Flow;
use super::frames::Frames;
use super::memory_functions::{self, MemoryFunction};
use crate::recording::FUNCTIONS;
use crate::stacks::{Elf, Module, each_function};
use reheap_graft::Processor;
use std::sync::Arc;

/// Functions from which an allocator's code is reached, besides those that are counted.
const FURTHER_ROOTS: [&str; 2] = ["malloc_usable_size", "__libc_free"];
/// How often one looks what glibc chose, before one gives up.
const TRIES_MAX: u32 = 64;

/// The code of a file.
#[derive(Debug)]
pub(super) struct Code {
    elf: Option<Arc<Elf>>,
    frames: Frames,
    memory: Vec<MemoryFunction>,
    /// Words in a process that tell more memory functions; empty when they have been read.
    words: Vec<(u64, &'static str)>,
    tries: u32,
    /// Whether it uses functions of other files.
    imports: bool,
    /// Where the allocator's code begins.
    roots: Vec<u64>,
    /// Addresses that were held against this file.
    asked: Vec<u64>,
    /// The allocator's code, read when a sample is in it and tables do not tell how its stack is unwound.
    flow: Option<Flow>,
}

impl Code {
    pub(super) fn of(module: &Module) -> Self {
        let mut code = Self {
            elf: module.elf.clone(),
            frames: Frames::default(),
            memory: Vec::new(),
            words: Vec::new(),
            tries: 0,
            imports: false,
            roots: Vec::new(),
            asked: Vec::new(),
            flow: None,
        };
        if let Some(elf) = &module.elf {
            code.frames = Frames::of(elf);
            code.memory = memory_functions::named(module, elf, &code.frames);
            code.words = memory_functions::chosen_words(elf);
            code.imports = memory_functions::imports(elf);
            let mut roots = Vec::new();
            each_function(module, |name, address, _| {
                if FUNCTIONS.contains(&name) || FURTHER_ROOTS.contains(&name) {
                    roots.push(address);
                }
            });
            code.begin_at(&roots);
        }
        code
    }

    /// The allocator's code can be reached from those of these functions that are in this file too.
    pub(super) fn begin_at(&mut self, functions: &[u64]) {
        let Some(elf) = self.elf.as_deref() else {
            return;
        };
        for function in functions {
            if !self.asked.contains(function) {
                self.asked.push(*function);
                if elf.code(*function, 1).is_some() {
                    self.roots.push(*function);
                    self.flow = None;
                }
            }
        }
    }

    /// Reads what glibc chose in this process, which has the file `bias` bytes from where it says.
    pub(super) fn look_into(&mut self, pid: u32, bias: u64) {
        if self.words.is_empty() || self.tries == TRIES_MAX {
            return;
        }
        self.tries += 1;
        let chosen = memory_functions::chosen(&self.words, pid, bias, &self.frames);
        if !chosen.is_empty() {
            self.memory.extend(chosen);
            self.memory
                .sort_by_key(|function| (function.code.start, function.code.end));
            self.memory.dedup_by_key(|function| function.code.start);
            self.words.clear();
        }
    }

    /// Whether it may have memory functions that nothing names: a stripped static program, for example.
    pub(super) fn hides_memory_functions(&self) -> bool {
        let is_whole = !self.imports || !self.words.is_empty();
        self.elf.is_some() && self.memory.is_empty() && is_whole
    }

    pub(super) fn memory_function(&self, address: u64) -> Option<&'static str> {
        memory_functions::at(&self.memory, address)
    }

    /// Whether tables tell how a stack is unwound from there.
    pub(super) fn has_tables(&self, address: u64) -> bool {
        self.frames.at(address).is_some()
    }

    /// How far above the stack pointer the return address is, in the allocator's code.
    pub(super) fn depth(&mut self, address: u64) -> Option<u64> {
        let elf = self.elf.as_deref()?;
        let flow = self.flow.get_or_insert_with(|| Flow::of(elf, &self.roots));
        flow.depth(address)
    }

    /// Whether the code of this processor can be followed where there are no tables.
    pub(super) fn is_readable(&self) -> bool {
        let processor = self.elf.as_ref().map(|elf| elf.processor());
        processor.is_none_or(|processor| processor == Processor::X86_64)
    }
}
