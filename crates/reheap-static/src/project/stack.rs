//! Sets the size of threads' stacks where a linker does not: mold 1.10 ignores `-z stack-size=`.

use anyhow::Context as _;
use reheap_subject::open_file::OpenFile;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Sets it in an executable that was linked with these words, if the linker has left it open.
///
/// # Errors
/// When the executable cannot be read or written.
pub fn set_if_ignored(executable: &Path, words: &[OsString]) -> anyhow::Result<()> {
    let Some(wanted_bytes) = words.iter().rev().find_map(|word| size_in(word.to_str()?)) else {
        return Ok(());
    };
    let cannot = || format!("cannot set the stack size in `{}`", executable.display());
    let file = fs::File::open(executable).with_context(cannot)?;
    if !file.metadata().with_context(cannot)?.is_file() {
        return Ok(()); // /dev/null
    }
    let opened = OpenFile::new(file).with_context(cannot)?;
    let stated = reheap_elf::stack::size(&opened).with_context(cannot)?;
    if let Some(stated) = stated.filter(|stated| stated.bytes == 0) {
        let file = OpenOptions::new().write(true).open(executable);
        let number = stated.encoded(wanted_bytes);
        file.and_then(|file| file.write_all_at(&number, stated.offset))
            .with_context(cannot)?;
    }
    Ok(())
}

/// The size in `stack-size=N`, which stands alone or at the end of `-Wl,-z,stack-size=N`.
fn size_in(word: &str) -> Option<u64> {
    let (_, number) = word.rsplit_once("stack-size=")?;
    let number = number.split(',').next()?;
    match number.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_in_all_forms_that_linkers_read() {
        assert_eq!(size_in("-Wl,-z,stack-size=65536"), Some(65536));
        assert_eq!(size_in("stack-size=0x10000"), Some(65536));
        assert_eq!(size_in("-Wl,-z,stack-size=1,--gc-sections"), Some(1));
        assert_eq!(size_in("-Wl,-z,stack-size=large"), None);
        assert_eq!(size_in("-z"), None);
    }
}
