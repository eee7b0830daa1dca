//! What goes where in a process: the relocated prologues, the hooks, and the jumps.
//!
//! All of it is one block near the program's code. First come a page or two with the relocated prologues, then the
//! hooks library. A jump leads from a function straight to its hook, and the library's pointer behind the hook to the
//! relocated prologue. This module computes bytes; it touches no process.

use super::InjectError;
use super::library::HooksLibrary;
use super::registers;
use super::room::room_near;
use reheap_graft::{Function, Located, Protection, prologue, put_word};
use reheap_proc::maps::Mapping;
use std::ops::Range;

/// A jump in the place of a function's first instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Jump {
    pub(super) address: u64,
    pub(super) original: Vec<u8>,
    pub(super) jump: Vec<u8>,
}

/// Tells this block from those that are put into other processes. Two of the same program at a fixed address would be
/// equal otherwise, and whoever leaves one of them would think that the other is its fork.
pub(super) type Token = [u8; 16];

/// Behind the code of the caller, in the space of a prologue.
pub(super) const TOKEN_OFFSET: usize = 32;

/// The block that goes into a process.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) base: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) protections: Vec<(Range<u64>, Protection)>,
    /// Code that calls a function for reheap.
    pub(super) caller: u64,
    /// The hooks library's function that opens the recording.
    pub(super) attach: u64,
    pub(super) jumps: Vec<Jump>,
    /// Calls that go past a hook.
    pub(super) redirected: Vec<Jump>,
    /// The functions that the jumps are in, in the same order.
    pub(super) hooked: Vec<String>,
    /// Functions that have no hook.
    pub(super) not_hooked: Vec<String>,
}

impl Layout {
    /// The addresses that the block takes.
    pub(super) fn range(&self) -> Range<u64> {
        self.base..self.base + self.bytes.len() as u64
    }
}

/// Lays the block out for a program that is loaded `bias` bytes from where its file says, among `mappings`.
pub(super) fn lay_out(
    located: &Located,
    bias: u64,
    library: &HooksLibrary,
    mappings: &[Mapping],
    page_bytes: u64,
    token: Token,
) -> Result<Layout, InjectError> {
    let (hooked, rest): (Vec<&Function>, Vec<&Function>) = located
        .functions
        .iter()
        .partition(|function| library.hook(&function.name).is_some());
    let prologues_bytes = (hooked.len() + 1) * prologue::RELOCATED_BYTES_MAX;
    let prologues_bytes = (prologues_bytes as u64).next_multiple_of(page_bytes);
    let bytes = (prologues_bytes + library.span_bytes()).next_multiple_of(page_bytes);
    let image = located.image.start.wrapping_add(bias)..located.image.end.wrapping_add(bias);
    let reach = prologue::reach_bytes(located.processor);
    let base = room_near(mappings, &image, bytes, reach, page_bytes)
        .ok_or(InjectError::NoRoom { bytes })?;

    let library_base = base + prologues_bytes;
    let mut layout = Layout {
        base,
        bytes: vec![0; bytes as usize],
        protections: protections(base..library_base, library, page_bytes)?,
        caller: base,
        attach: library_base + library.attach(),
        jumps: Vec::new(),
        redirected: Vec::new(),
        hooked: Vec::new(),
        not_hooked: Vec::new(),
    };
    layout.bytes[..registers::CALLER.len()].copy_from_slice(&registers::CALLER);
    layout.bytes[TOKEN_OFFSET..TOKEN_OFFSET + token.len()].copy_from_slice(&token);
    let mut image = library.image_at(library_base);
    for (index, function) in hooked.into_iter().enumerate() {
        let place = ((index + 1) * prologue::RELOCATED_BYTES_MAX) as u64;
        layout.add_hook(function, bias, library, library_base, place)?;
        set_next(&mut image, library, &function.name, base + place);
        if function.name == "free" {
            layout.pass_own_frees(located, bias, base + place)?;
        }
    }
    for function in rest {
        let next = function.address.wrapping_add(bias);
        if !set_next(&mut image, library, &function.name, next) {
            layout.not_hooked.push(function.name.clone());
        }
    }
    let start = prologues_bytes as usize;
    layout.bytes[start..start + image.len()].copy_from_slice(&image);
    Ok(layout)
}

impl Layout {
    fn add_hook(
        &mut self,
        function: &Function,
        bias: u64,
        library: &HooksLibrary,
        library_base: u64,
        place: u64,
    ) -> Result<(), InjectError> {
        let address = function.address.wrapping_add(bias);
        let processor = library.processor();
        let unhookable = |reason| InjectError::Prologue {
            name: function.name.clone(),
            reason,
        };
        let moved = prologue::relocate(processor, &function.code, address, self.base + place)
            .map_err(unhookable)?;
        let start = place as usize;
        self.bytes[start..start + moved.len()].copy_from_slice(&moved);
        let hook = library
            .hook(&function.name)
            .expect("only functions with hooks come here");
        let jump = prologue::replacement(processor, &function.code, address, library_base + hook);
        let jump = jump.ok_or(InjectError::NoRoom {
            bytes: self.bytes.len() as u64,
        })?;
        self.hooked.push(function.name.clone());
        self.jumps.push(Jump {
            address,
            original: function.code[..jump.len()].to_vec(),
            jump,
        });
        Ok(())
    }
}

impl Layout {
    /// Leads glibc's own calls of `free` past the hook.
    fn pass_own_frees(
        &mut self,
        located: &Located,
        bias: u64,
        free: u64,
    ) -> Result<(), InjectError> {
        for own in &located.own_frees {
            let address = own.address.wrapping_add(bias);
            let call = prologue::call(located.processor, address, free);
            self.redirected.push(Jump {
                address,
                original: own.code.clone(),
                jump: call.ok_or(InjectError::NoRoom {
                    bytes: self.bytes.len() as u64,
                })?,
            });
        }
        Ok(())
    }

    /// All changes of the program's code.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Jump> {
        self.redirected.iter().chain(&self.jumps)
    }
}

/// Sets the pointer behind a hook. `false` if the library has none of that name.
fn set_next(image: &mut [u8], library: &HooksLibrary, name: &str, value: u64) -> bool {
    let Some(offset) = library.next(name) else {
        return false;
    };
    put_word(image, offset, value);
    true
}

/// What may be done with the pages of the block.
fn protections(
    prologues: Range<u64>,
    library: &HooksLibrary,
    page_bytes: u64,
) -> Result<Vec<(Range<u64>, Protection)>, InjectError> {
    let base = prologues.end;
    let mut protections = vec![(prologues, Protection::Execute)];
    for (range, protection) in library.protections() {
        let start = (base + range.start) / page_bytes * page_bytes;
        let end = (base + range.end).next_multiple_of(page_bytes);
        let (last, _) = protections.last().expect("the prologues are the first");
        if start < last.end {
            return Err(InjectError::SharedPage { page_bytes });
        }
        protections.push((start..end, *protection));
    }
    Ok(protections)
}
