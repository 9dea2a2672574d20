//! Whether an image holds a change of WAL already.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangePresence {
    /// It does not hold the change, or redo of the change does not mind if it does.
    Absent,
    Present,
    /// Unknown.
    Unclear,
}
