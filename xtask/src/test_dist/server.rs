//! A server on this machine with the files of a directory, which can be told to damage one.
//!
//! Not Python's: it cannot break off in the middle of a file, and this one needs to do nothing else than send files.

use super::TestDist;
use anyhow::{Context as _, Result};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// What happens to archives on their way.
#[derive(Clone, Copy)]
pub(super) enum Archives {
    Whole,
    /// The connection ends before the file does.
    CutOff,
    /// One byte is another.
    Tampered,
}

/// A server that runs until the end of the program.
pub(super) struct Server {
    pub(super) address: String,
}

impl Server {
    /// A server with the finished files.
    pub(super) fn start(test: &TestDist<'_>, archives: Archives) -> Result<Server> {
        Server::of(test.directory.clone(), archives)
    }

    /// A server with the files of a directory.
    pub(super) fn of(directory: PathBuf, archives: Archives) -> Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
        let address = format!("http://{}", listener.local_addr()?);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                // A client that has seen enough closes the connection, which is not this server's concern.
                _ = answer(connection, &directory, archives);
            }
        });
        Ok(Server { address })
    }
}

fn answer(mut connection: TcpStream, directory: &Path, archives: Archives) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let name = request
        .split(' ')
        .nth(1)
        .and_then(|path| path.strip_prefix('/'));
    let Some(path) = name.and_then(|name| inside(directory, name)) else {
        return connection.write_all(b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    };
    let mut bytes = fs::read(&path)?;
    let length = bytes.len();
    if path.extension().is_some_and(|end| end == "gz") {
        match archives {
            Archives::Whole => {}
            Archives::CutOff => bytes.truncate(length / 2),
            Archives::Tampered => bytes[length / 2] ^= 1,
        }
    }
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n");
    connection.write_all(head.as_bytes())?;
    connection.write_all(&bytes)
}

/// A file of the directory itself.
fn inside(directory: &Path, name: &str) -> Option<PathBuf> {
    let path = directory.join(name);
    (!name.contains('/') && path.is_file()).then_some(path)
}
