//! The compiler of wasmtime, on a WebAssembly module that is given, with as many threads as are given.
//!
//! The machine code is for x86-64 without extensions, whatever this machine is and has, so that every variant, on every
//! machine, does the same work and prints the same digest.

use rayon::ThreadPoolBuilder;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::process::ExitCode;
use wasmtime::{Config, Engine};
use workload::{Arguments, Digest, Workload};

const TARGET: &str = "x86_64-unknown-linux-gnu";

const WASM_COMPILE: Workload = Workload {
    name: "wasm-compile",
    about: "Compiles a WebAssembly module to machine code, on several threads.",
    operations: "compilations, one after the other,",
    amount: NonZeroU64::MIN,
    file: Some("MODULE"),
};

fn main() -> ExitCode {
    workload::run(WASM_COMPILE, |arguments| compile(arguments).map(Some))
}

fn compile(arguments: Arguments) -> io::Result<Digest> {
    let file = arguments.file.expect("the workload asks for a file");
    let module = fs::read(&file).map_err(|error| {
        let reason = format!("cannot read `{}`: {error}", file.display());
        io::Error::new(error.kind(), reason)
    })?;
    let engine = Engine::new(Config::new().target(TARGET).map_err(io::Error::other)?);
    let engine = engine.map_err(io::Error::other)?;
    let pool = ThreadPoolBuilder::new().num_threads(arguments.threads.get());
    let pool = pool.build().map_err(io::Error::other)?;
    pool.install(|| {
        let compilations = 0..arguments.amount.get();
        compilations
            .map(|_| {
                let code = engine.precompile_module(&module);
                Ok(Digest::of(&code.map_err(io::Error::other)?))
            })
            .sum()
    })
}
