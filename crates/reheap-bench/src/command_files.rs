//! The files of a command, by which two files of results can tell whether they measured the same program.

use crate::run::CommandLine;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

/// Of a larger file, only its beginning and its size count: reading a program is part of the time that a user gives.
const BYTES_MAX: u64 = 16 << 20;

/// The SHA-256 of a command's program, of the first file that its arguments name, which is the script of an interpreter
/// or the archive of a runtime, and of its input. Files behind the first are often what it writes. None if the program
/// cannot be read.
pub fn sha256(command: &CommandLine) -> Option<String> {
    let mut hash = Sha256::new();
    add(&mut hash, &command.program).ok()?;
    let mut arguments = command.arguments.iter().map(Path::new);
    let script = arguments.find(|argument| argument.is_file());
    for file in script.into_iter().chain(command.input.as_deref()) {
        add(&mut hash, file).ok()?;
    }
    Some(hex::encode(hash.finalize()))
}

fn add(hash: &mut Sha256, path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    hash.update(file.metadata()?.len().to_le_bytes());
    let mut contents = BufReader::new(file.take(BYTES_MAX));
    loop {
        let piece = contents.fill_buf()?;
        if piece.is_empty() {
            return Ok(());
        }
        hash.update(piece);
        let count = piece.len();
        contents.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn another_script_is_another_command_and_another_output_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("app.py"), "one").unwrap();
        let command = CommandLine {
            program: "/bin/sh".into(),
            arguments: vec!["-x".into(), path("app.py").into(), path("out").into()],
            ..CommandLine::default()
        };
        let before = sha256(&command).unwrap();
        fs::write(path("out"), "more").unwrap();
        assert_eq!(sha256(&command).unwrap(), before);
        fs::write(path("app.py"), "two").unwrap();
        assert_ne!(sha256(&command).unwrap(), before);
        let missing = CommandLine {
            program: path("none"),
            ..command
        };
        assert_eq!(sha256(&missing), None);
    }
}
