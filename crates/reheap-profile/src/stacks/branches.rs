//! Unwind tables whose evaluation might never end.
//!
//! Where a frame begins may be said by an expression (DWARF 5, 2.5), and expressions have branches. framehop 0.16 sets no
//! limit to what gimli evaluates, so a branch back to itself would take for ever. No compiler and no libc branches there.
//! So a file that does gets no tables, and its frames are found by frame pointers. Expressions without branches end.
//!
//! Rejected: to change the bytes. Entries may overlap, and what is harmless in one may become a branch in another.

use super::UnwindSections;
use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CieOrFde, DebugFrame, EhFrame,
    EhFrameHdr, Encoding, EndianSlice, FrameDescriptionEntry, LittleEndian, Operation,
    UnwindSection,
};
use std::collections::HashSet;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Takes tables with branches out.
pub(super) fn forget(sections: &mut UnwindSections) {
    let start =
        |range: &Option<std::ops::Range<u64>>| range.as_ref().map_or(0, |range| range.start);
    // As framehop has them.
    let bases = BaseAddresses::default()
        .set_eh_frame(start(&sections.eh_frame_svma))
        .set_eh_frame_hdr(start(&sections.eh_frame_hdr_svma))
        .set_text(start(&sections.text_svma))
        .set_got(start(&sections.got_svma));
    if let Some(eh_frame) = &sections.eh_frame {
        let mut section = EhFrame::new(eh_frame, LittleEndian);
        section.set_address_size(8);
        let found = match &sections.eh_frame_hdr {
            Some(hdr) => Entries::new(section, &bases, eh_frame.len()).branch_by_table(hdr),
            None => Entries::new(section, &bases, eh_frame.len()).branch(),
        };
        if found {
            (sections.eh_frame, sections.eh_frame_hdr) = (None, None);
        }
    }
    if let Some(debug_frame) = &sections.debug_frame {
        let mut section = DebugFrame::new(debug_frame, LittleEndian);
        section.set_address_size(8);
        if Entries::new(section, &bases, debug_frame.len()).branch() {
            sections.debug_frame = None;
        }
    }
}

/// The entries of a section that framehop can meet.
struct Entries<'a, S> {
    section: S,
    bases: &'a BaseAddresses,
    /// Where those begin that were looked at.
    seen: HashSet<usize>,
    /// How many bytes there are still to look at, unless entries overlap.
    left: usize,
}

impl<'a> Entries<'a, EhFrame<Bytes<'a>>> {
    /// Whether one branches to which the table of `.eh_frame_hdr` leads. That may be anywhere, also inside another one.
    fn branch_by_table(mut self, hdr: &'a [u8]) -> bool {
        let Ok(hdr) = EhFrameHdr::new(hdr, LittleEndian).parse(self.bases, 8) else {
            return false; // framehop cannot read it either
        };
        let Some(table) = hdr.table() else {
            return false;
        };
        let mut rows = table.iter(self.bases);
        while let Some(row) = rows.next().transpose() {
            let Ok((_, entry)) = row else {
                return true; // a search might find what is behind it
            };
            let Ok(offset) = table.pointer_to_offset(entry) else {
                continue;
            };
            let entry = self
                .section
                .fde_from_offset(self.bases, offset, EhFrame::cie_from_offset);
            if entry.is_ok_and(|entry| self.branches(&entry)) {
                return true;
            }
        }
        false
    }
}

impl<'a, S: UnwindSection<Bytes<'a>>> Entries<'a, S> {
    fn new(section: S, bases: &'a BaseAddresses, bytes: usize) -> Self {
        Self {
            section,
            bases,
            seen: HashSet::new(),
            left: bytes,
        }
    }

    /// Whether one of all in their order branches.
    fn branch(mut self) -> bool {
        let mut entries = self.section.entries(self.bases);
        while let Ok(Some(entry)) = entries.next() {
            if let CieOrFde::Fde(entry) = entry
                && let Ok(entry) = entry.parse(S::cie_from_offset)
                && self.branches(&entry)
            {
                return true;
            }
        }
        false
    }

    fn branches(&mut self, entry: &FrameDescriptionEntry<Bytes<'a>>) -> bool {
        let common = entry.cie();
        let is_new = [
            self.is_new(common.offset(), common.entry_len()),
            self.is_new(entry.offset(), entry.entry_len()),
        ];
        let [Some(common_is_new), Some(is_new)] = is_new else {
            return true;
        };
        let branches = |instructions| branches(instructions, &self.section, common.encoding());
        common_is_new && branches(common.instructions(&self.section, self.bases))
            || is_new && branches(entry.instructions(&self.section, self.bases))
    }

    /// Whether an entry was not looked at yet; `None` if there are so many in each other that looking would not end either.
    fn is_new(&mut self, offset: usize, bytes: usize) -> Option<bool> {
        let is_new = self.seen.insert(offset);
        self.left = self.left.checked_sub(if is_new { bytes } else { 0 })?;
        Some(is_new)
    }
}

/// What cannot be read ends the evaluation, too.
fn branches<'a, S: UnwindSection<Bytes<'a>>>(
    mut instructions: CallFrameInstructionIter<'_, Bytes<'a>>,
    section: &S,
    encoding: Encoding,
) -> bool {
    while let Ok(Some(instruction)) = instructions.next() {
        let (CallFrameInstruction::DefCfaExpression { expression }
        | CallFrameInstruction::Expression { expression, .. }
        | CallFrameInstruction::ValExpression { expression, .. }) = instruction
        else {
            continue;
        };
        let Ok(expression) = expression.get(section) else {
            continue;
        };
        let mut operations = expression.operations(encoding);
        while let Ok(Some(operation)) = operations.next() {
            if matches!(operation, Operation::Bra { .. } | Operation::Skip { .. }) {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A common entry, and one of it with these instructions.
    fn entries(instructions: &[u8]) -> Vec<u8> {
        let common = [
            0x10, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x04, 0x0c, 7, 8,
        ];
        let mut entry = vec![0, 0, 0, 0, 0x18, 0, 0, 0];
        entry.extend(0x1000_u64.to_le_bytes());
        entry.extend(0x100_u64.to_le_bytes());
        entry.push(0);
        entry.extend(instructions);
        entry[0] = entry.len() as u8 - 4;
        [&common[..], &entry].concat()
    }

    /// One row, with absolute addresses.
    fn table(eh_frame: u64, entry: u64) -> Vec<u8> {
        let mut table = vec![1, 4, 4, 4];
        for word in [eh_frame, 1, 0x1000, entry] {
            table.extend(word.to_le_bytes());
        }
        table
    }

    fn sections(eh_frame: Option<Vec<u8>>, hdr: Option<Vec<u8>>) -> UnwindSections {
        UnwindSections {
            eh_frame_svma: Some(0x8000..0x9000),
            eh_frame: eh_frame.map(Arc::from),
            eh_frame_hdr: hdr.map(Arc::from),
            ..UnwindSections::default()
        }
    }

    fn is_kept(mut sections: UnwindSections) -> bool {
        forget(&mut sections);
        sections.eh_frame.is_some()
    }

    /// Expressions that branch back to themselves: always, and because a number is not zero.
    const BACK: [&[u8]; 2] = [&[0x2f, 0xfd, 0xff], &[0x31, 0x28, 0xfc, 0xff]];

    #[test]
    fn tables_of_which_an_expression_branches_are_taken_out() {
        let plain = entries(&[0x0f, 2, 0x77, 8]);
        assert!(is_kept(sections(Some(plain.clone()), None)));
        assert!(is_kept(sections(Some(plain), Some(table(0x8000, 0x8014)))));
        for expression in BACK {
            let length = expression.len() as u8;
            for head in [&[0x0f, length][..], &[0x10, 6, length], &[0x16, 16, length]] {
                let branches = entries(&[head, expression].concat());
                assert!(!is_kept(sections(Some(branches.clone()), None)));
                assert!(!is_kept(sections(
                    Some(branches),
                    Some(table(0x8000, 0x8014))
                )));
            }
        }
    }

    #[test]
    fn an_entry_to_which_only_the_table_leads_is_looked_at() {
        let plain = entries(&[0x0f, 2, 0x77, 8]);
        let mut both = [&plain[..], &[0; 4]].concat(); // the end of all entries
        let hidden_at = both.len() as u8;
        let mut hidden = entries(&[0x0f, 3, 0x2f, 0xfd, 0xff]).split_off(20);
        hidden[4] = hidden_at + 4; // back to the common entry
        both.extend(hidden);
        let hidden_at = 0x8000 + u64::from(hidden_at);
        assert!(is_kept(sections(
            Some(both.clone()),
            Some(table(0x8000, 0x8014))
        )));
        assert!(!is_kept(sections(
            Some(both),
            Some(table(0x8000, hidden_at))
        )));
    }

    /// So many in each other that to look at each would take hours.
    #[test]
    fn a_table_that_leads_to_entries_in_each_other_is_taken_out() {
        const ENTRIES: u64 = 1 << 20;
        let mut eh_frame = entries(&[]);
        let mut rows = Vec::new();
        for index in 0..ENTRIES {
            let at = eh_frame.len() as u64;
            rows.extend([0x1000 + index, 0x8000 + at].map(u64::to_le_bytes));
            let behind = 32 * (ENTRIES - index);
            eh_frame.extend((behind as u32 - 4).to_le_bytes());
            eh_frame.extend((at as u32 + 4).to_le_bytes());
            eh_frame.extend([0; 24]);
        }
        let mut hdr = table(0x8000, 0);
        hdr.truncate(12);
        hdr.extend(ENTRIES.to_le_bytes());
        hdr.extend(rows.concat());
        assert!(!is_kept(sections(Some(eh_frame), Some(hdr))));
    }
}
