//! What a registry may answer in place of an image, and what else can go wrong.

use super::patience::TRIES;
use crate::error::ImageError;
use crate::read::ReadError;
use std::time::Duration;

/// Why an image does not come from a registry, or not get there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// It is not the name of an image.
    #[error("`{text}` does not name an image in a registry: {reason}")]
    Name {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller said that it should end.
    #[error("interrupted")]
    Interrupted,
    /// It wants another user, or a user at all.
    #[error("the registry refuses access{}", match .as_user { Some(user) => format!(" to {user}"), None => " without a login".to_owned() })]
    Unauthorized {
        /// Who asked.
        as_user: Option<String>,
    },
    /// It has no such thing.
    #[error("the registry has no {0}")]
    NotFound(String),
    /// It has too much to do.
    #[error("the registry is still busy after {TRIES} tries (HTTP {code})")]
    Busy {
        /// What it answered.
        code: u16,
    },
    /// It has too much to do for longer than anybody waits.
    #[error("the registry is busy (HTTP {code}), and asks to wait {}", humantime::format_duration(Duration::from_secs(.wait.as_secs())))]
    BusyForLong {
        /// What it answered.
        code: u16,
        /// How long it asks to wait.
        wait: Duration,
    },
    /// It said something else.
    #[error("the registry answers HTTP {code}: {message}")]
    Server {
        /// The status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// It cannot be reached, or what it refers to.
    #[error("cannot connect to {to}: {reason}")]
    Connection {
        /// The host, and the port if it is not the usual one.
        to: String,
        /// Why not.
        reason: String,
    },
    /// The connection ended in the middle.
    #[error("the registry sent {got} of the {expected} bytes of {digest}")]
    CutOff {
        /// What it was.
        digest: String,
        /// How much there is.
        expected: u64,
        /// How much came.
        got: u64,
    },
    /// Something else about the protocol.
    #[error("{0}")]
    Protocol(String),
    /// What came is no image that reheap reads.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is no place for it.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Nothing says whom TLS may trust.
    #[error("this machine has no certificates of authorities for TLS")]
    NoCertificates,
    /// What logs in cannot be read.
    #[error("cannot read the login for {registry}: {reason}")]
    Credentials {
        /// For which registry.
        registry: String,
        /// What is wrong with it.
        reason: String,
    },
}
