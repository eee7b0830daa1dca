//! Where a file's functions begin and end, by the tables that C++ exceptions need (`.eh_frame`). Stripped files have them
//! too.

use crate::stacks::Elf;
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection as _};
use std::ops::Range;

/// The functions of a file, in its addresses.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// First address and size, by address.
    functions: Vec<(u64, u64)>,
}

impl Frames {
    /// None where the file has no tables.
    pub(super) fn of(elf: &Elf) -> Self {
        let sections = elf.unwind_sections();
        let (Some(bytes), Some(range)) = (&sections.eh_frame, &sections.eh_frame_svma) else {
            return Self::default();
        };
        let table = EhFrame::new(bytes, LittleEndian);
        let mut bases = BaseAddresses::default().set_eh_frame(range.start);
        if let Some(text) = &sections.text_svma {
            bases = bases.set_text(text.start);
        }
        if let Some(got) = &sections.got_svma {
            bases = bases.set_got(got.start);
        }
        let mut functions = Vec::new();
        let mut entries = table.entries(&bases);
        // What comes behind a damaged entry is left out.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(entry) = entry else {
                continue;
            };
            let Ok(entry) = entry.parse(|_, bases, offset| table.cie_from_offset(bases, offset))
            else {
                continue;
            };
            functions.push((entry.initial_address(), entry.len()));
        }
        functions.sort_unstable();
        Self { functions }
    }

    /// The function that an address is in.
    pub(super) fn at(&self, address: u64) -> Option<Range<u64>> {
        let behind = self
            .functions
            .partition_point(|(start, _)| *start <= address);
        let (start, bytes) = *self.functions.get(behind.checked_sub(1)?)?;
        (address - start < bytes).then(|| start..start + bytes)
    }
}
