//! The attacks: names, what the program does wrong, what the attacker wants.

use reheap_command::ui::Failure;
use reheap_report::attacks::Attack;

/// Name, number in the Common Weakness Enumeration, what the program does, and what the attacker gets.
type Row = (&'static str, u16, &'static str, &'static str);

/// The attacks in the order of the report. Each name is one of `attacker/main.c`.
#[rustfmt::skip]
pub(crate) const ATTACKS: [Row; 34] = [
    ("double-free", 415, "frees a block twice", "one block that two parts of the program own"),
    ("double-free-between", 415, "frees a block, others, and the first one again", "one block that two parts of the program own"),
    ("double-free-thread", 415, "frees a block in one thread, and again in another", "one block that two threads own"),
    ("double-free-large", 415, "frees a block of 1 MiB twice", "one block that two parts of the program own"),
    ("realloc-after-free", 416, "resizes a block that it has freed", "one block that two parts of the program own"),
    ("free-interior", 761, "frees an address inside a block", "a block inside one that is in use"),
    ("free-stack", 590, "frees an address on the stack", "a block on the stack"),
    ("free-foreign", 590, "frees an address in memory that malloc never gave", "a block in that memory"),
    ("sized-free", 762, "frees a block of 64 bytes as one of 256", "a block that reaches over the next one"),
    ("overflow-1", 193, "writes 1 byte beyond a block", "the neighbour's data changed, or a block that reaches over it"),
    ("overflow-8", 122, "writes 8 bytes beyond a block", "the neighbour's data changed, or a block that reaches over it"),
    ("overflow-64", 122, "writes 64 bytes beyond a block", "the neighbour's data changed"),
    ("overflow-64-old", 122, "writes 64 bytes beyond a block that many others followed", "the neighbour's data changed"),
    ("overflow-page", 122, "writes beyond a block until the next page", "the data of a block on the next page changed"),
    ("overflow-large", 122, "writes beyond a block of 1 MiB", "the data of the next large block changed"),
    ("underflow-1", 124, "writes 1 byte before a block", "the neighbour's data changed, or a block that reaches over it"),
    ("underflow-8", 124, "writes 8 bytes before a block", "the neighbour's data changed, or a block that reaches over it"),
    ("underflow-64", 124, "writes 64 bytes before a block", "the neighbour's data changed"),
    ("overread", 126, "reads beyond a block", "the neighbour's secret"),
    ("uaf-read", 416, "reads a block that it has freed", "the secret that was in the block"),
    ("uaf-write", 416, "writes to a block that it has freed", "these bytes in a new block of somebody else"),
    ("uaf-reuse", 843, "uses a freed object after the attacker got its place", "a length of the attacker's own in the object"),
    ("uaf-call", 416, "calls a function through an object that it has freed", "a function of the attacker's own called"),
    ("poisoned-list", 416, "writes an address into freed blocks", "a block at that address"),
    ("poisoned-list-known", 416, "the same, after the attacker could read freed blocks", "a block at an address of the attacker's own"),
    ("freed-neighbour", 122, "writes an address beyond a block, into a freed neighbour", "a block at that address"),
    ("fake-chunk", 590, "frees a forged block, with a size before it as in glibc", "a block in the attacker's memory"),
    ("unlink", 122, "writes a forged list beyond a block of 1 KiB", "a pointer of the program changed"),
    ("uninitialised-read", 908, "sends a new block that it has not filled", "an address of the heap or of a library"),
    ("stale-data", 226, "frees a secret of 64 bytes without overwriting it", "the secret in a new block"),
    ("stale-data-large", 226, "frees a secret in a block of 1 MiB without overwriting it", "the secret in a new block"),
    ("realloc-race", 362, "resizes one block in two threads at once", "one block that two threads own"),
    ("thread-reuse", 416, "frees a block in another thread than the one that made it", "the same block by the next allocation"),
    ("predict-next", 340, "makes blocks whose order can be foreseen", "the next block's address in advance"),
];

/// All attacks, or those that the user names.
pub fn chosen(names: &[String]) -> anyhow::Result<Vec<Attack>> {
    let known = |name: &String| ATTACKS.iter().any(|row| row.0 == name.as_str());
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let failure = Failure::usage(format!("unknown attack `{unknown}`"));
        return Err(failure.hint("reheap attack --list").into());
    }
    let wanted = |row: &&Row| names.is_empty() || names.iter().any(|name| name == row.0);
    let attacks = ATTACKS.iter().filter(wanted);
    Ok(attacks.map(|row| attack(*row)).collect())
}

fn attack((name, cwe, error, gain): Row) -> Attack {
    Attack {
        name: name.to_owned(),
        cwe,
        error: format!("the program {error}").replace("the program the same", "the same"),
        gain: gain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reheap_variants::measured_attacks;

    #[test]
    fn the_measured_attacks_are_those_that_there_are() {
        let names: Vec<&str> = ATTACKS.iter().map(|row| row.0).collect();
        assert_eq!(
            measured_attacks::attacks(),
            names,
            "run `cargo lab attacks` again"
        );
    }
}
