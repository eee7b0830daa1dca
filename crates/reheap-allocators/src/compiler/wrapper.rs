//! Scripts that start a compiler or an archiver with its fixed arguments.
//!
//! A symbolic link is not enough. `zig` learns from its first argument that it is a compiler, and `g++` needs a specs
//! file. The `cc` crate, CMake and configure scripts pass flags of GCC. A small shell script starts in a millisecond,
//! and needs nothing that build scripts do not need themselves.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use super::{Archiver, Compiler, HOST_SEARCH_PATHS, Kind, Linking, NO_STACK_PROTECTOR};
use crate::shell;
use crate::target::Architecture;

/// The bytes of the script for a compiler.
pub(super) fn compiler_script(compiler: &Compiler) -> Vec<u8> {
    let mut script = b"#!/bin/sh\n".to_vec();
    if compiler.kind != Kind::FromEnvironment {
        script.extend_from_slice(format!("unset {}\n", HOST_SEARCH_PATHS.join(" ")).as_bytes());
    }
    if compiler.linking == Linking::Zig {
        script.extend_from_slice(zig_rewrites(compiler.target.arch()).as_bytes());
    }
    push_exec(&mut script, &compiler.program, &compiler.arguments);
    script
}

/// The bytes of the script for an archiver.
pub(super) fn archiver_script(archiver: &Archiver) -> Vec<u8> {
    let mut script = b"#!/bin/sh\n".to_vec();
    push_exec(&mut script, &archiver.program, &archiver.arguments);
    script
}

/// Turns GCC's and Clang's spelling of targets and processors into Zig's, because Zig refuses theirs.
///
/// The script drops flags that name the target, which is fixed. Zig looks up `-march` in its own list of processors:
/// `x86-64-v3` is `x86_64_v3` there, and `armv8.1-a` is `generic+v8_1a`. What GCC's `-fno-tree-loop-distribute-patterns`
/// turns off, Clang turns off with `-fno-builtin`.
fn zig_rewrites(architecture: Architecture) -> String {
    let march = match architecture {
        Architecture::X86_64 => {
            "    -march=x86-64) argument=-mcpu=x86_64 ;;\n    -march=x86-64-v*) argument=-mcpu=x86_64_v${argument##*-v} ;;\n    -mtune=*) continue ;;\n"
        }
        Architecture::Aarch64 => {
            "    -march=armv8-a*) argument=-mcpu=generic${argument#-march=armv8-a} ;;\n    \
             -march=armv8.[1-9]-a*) argument=${argument#-march=armv8.}; argument=-mcpu=generic+v8_${argument%%-a*}a${argument#?-a} ;;\n    \
             -mtune=*) continue ;;\n"
        }
        // Zig's target says it all: its baseline for RISC-V is rv64gc, for 32-bit x86 a Pentium 4.
        Architecture::Riscv64 | Architecture::Loongarch64 | Architecture::Powerpc64le => {
            "    -march=*|-mtune=*|-mabi=*) continue ;;\n"
        }
        Architecture::I686 => "    -march=*|-mtune=*|-m32) continue ;;\n",
        Architecture::Armv7 => {
            "    -march=*|-mtune=*|-mfpu=*|-mfloat-abi=*|-marm|-mthumb) continue ;;\n"
        }
    };
    format!(
        "skip=
protect={NO_STACK_PROTECTOR}
for argument do
  shift
  if [ \"$skip\" ]; then skip=; continue; fi
  case $argument in
    -target|--target) skip=1; continue ;;
    --target=*) continue ;;
    -fno-tree-loop-distribute-patterns) continue ;;
    -fstack-protector*) protect= ;;
{march}  esac
  set -- \"$@\" \"$argument\"
done
set -- $protect \"$@\"
"
    )
}

fn push_exec(script: &mut Vec<u8>, program: &Path, arguments: &[OsString]) {
    script.extend_from_slice(b"exec ");
    for word in
        std::iter::once(program.as_os_str()).chain(arguments.iter().map(OsString::as_os_str))
    {
        script.extend_from_slice(&shell::quoted(word));
        script.push(b' ');
    }
    script.extend_from_slice(b"\"$@\"\n");
}

/// Writes an executable file that appears whole.
pub(super) fn write(path: &Path, script: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // A correct script stays as it is. Another build may be starting it at this moment, and a new time stamp would
    // claim that the compiler changed.
    if std::fs::read(path).is_ok_and(|present| present == script) {
        return Ok(());
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    let permissions = std::fs::Permissions::from_mode(0o755);
    let mut file = tempfile::Builder::new()
        .prefix(".wrapper-")
        .permissions(permissions)
        .tempfile_in(directory)?;
    file.write_all(script)?;
    // The umask applies to the mode above, but not to this one.
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(0o755))?;
    file.persist(path)?;
    Ok(())
}
