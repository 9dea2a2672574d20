//! Repair and undo: what is written, when it is refused, and what is there when it was broken off.

mod command;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod guards;
mod rehearsal;
mod undo;

/// Held while a process with the name of a server runs, and while another user must be able to tell that none does: what
/// processes of root do is not shown to others.
static PROCESSES: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone_with_processes() -> std::sync::MutexGuard<'static, ()> {
    PROCESSES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
