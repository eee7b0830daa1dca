//! Where malloc is in a finished executable, and how another one takes its place.
//!
//! Nothing here does I/O or touches a process.

mod graft;
mod library;
mod locate;
mod processor;
pub mod prologue;

pub use graft::{
    Contract, Entry, Graft, GraftError, Grafted, InProcess, Stock, UndoError, graft, graft_process,
    undo,
};
pub use library::{Library, LibraryError, Protection, ThreadLocal, put_word};
pub use locate::{
    Access, Call, Function, LocateError, Located, dynamic_segment, locate, locate_in_library,
};
pub use processor::Processor;
pub use prologue::PrologueError;
